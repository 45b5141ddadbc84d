//! The times since which nodes have had their NoExecute taints, and the pods with a scheduled deletion.
//!
//! A taint of the node lifecycle controller states its time. A taint that users or kubectl add does not: its time counts from when this process first saw
//! the taint, and later reconciles of a pod must not restart the count. As upstream, the times are kept in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_informer::{Item, Key};
use oarlock_meta::{Time, Uid};
use oarlock_runtime::Instant;
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

use crate::project::{PodView, Taint};

/// The times of NoExecute taints per node, and the scheduled deletions of pods.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    nodes: Mutex<BTreeMap<Str, BTreeMap<Id, Instant>>>,
    pods: Mutex<BTreeMap<(Key, Uid), Looked>>,
}

/// The identity of a taint on a node: key, value and time.
type Id = (Str, Str, Option<Time>);

fn id(taint: &Taint) -> Id {
    (taint.key.clone(), taint.value.clone(), taint.added)
}

/// A pod on a tainted node.
#[derive(Clone, Copy, Debug)]
struct Looked {
    first: Instant,
    /// Whether a deletion of the pod is scheduled.
    waits: bool,
}

impl Clocks {
    /// Sets the NoExecute taints of a node. A taint that the node had before keeps its time.
    pub(super) fn node<'a>(&self, node: &Str, taints: impl Iterator<Item = &'a Taint>, now: Instant) {
        let mut nodes = self.nodes.lock();
        let mut known = nodes.remove(node).unwrap_or_default();
        let kept = |id: Id| {
            let first = known.remove(&id).unwrap_or(now);
            (id, first)
        };
        let next: BTreeMap<Id, Instant> = taints.map(id).map(kept).collect();
        if !next.is_empty() {
            nodes.insert(node.clone(), next);
        }
    }

    /// Returns the time for which pod and taint have both been on the node.
    pub(super) fn under(&self, pod: &Item<PodView>, taint: &Taint, now: Instant, wall: Time) -> Duration {
        if let Some(added) = taint.added {
            return since(pod.meta.created.map_or(added, |created| created.max(added)), wall);
        }
        if seeded_bug!("toleration_clock_restarts") {
            return Duration::ZERO;
        }
        let mut nodes = self.nodes.lock();
        let first = *nodes.entry(pod.value.node.clone()).or_default().entry(id(taint)).or_insert(now);
        drop(nodes);
        let looked = Looked { first: now, waits: false };
        let key = (pod.key().clone(), pod.meta.uid.clone());
        now - first.max(self.pods.lock().entry(key).or_insert(looked).first)
    }

    /// Records that a deletion of the pod is scheduled.
    pub(super) fn schedule(&self, pod: &Item<PodView>, now: Instant) {
        let key = (pod.key().clone(), pod.meta.uid.clone());
        self.pods.lock().entry(key).or_insert(Looked { first: now, waits: false }).waits = true;
    }

    /// Forgets the scheduled deletion of a pod; returns whether one was scheduled.
    pub(super) fn cancel(&self, pod: &Key) -> bool {
        let mut pods = self.pods.lock();
        let of = pods.range_mut((pod.clone(), Uid::default())..).take_while(|((key, _), _)| key == pod);
        of.fold(false, |waited, (_, looked)| std::mem::take(&mut looked.waits) || waited)
    }

    /// Forgets a pod; returns whether its deletion was scheduled.
    pub(super) fn forget(&self, pod: &Key) -> bool {
        let waited = self.cancel(pod);
        let mut pods = self.pods.lock();
        let of = pods.range((pod.clone(), Uid::default())..).take_while(|((key, _), _)| key == pod);
        let known: Vec<_> = of.map(|(key, _)| key.clone()).collect();
        for key in &known {
            pods.remove(key);
        }
        waited
    }

    /// Whether anything is remembered about a pod.
    pub(super) fn knows(&self, pod: &Key) -> bool {
        self.pods.lock().range((pod.clone(), Uid::default())..).next().is_some_and(|((key, _), _)| key == pod)
    }
}

/// Returns the time since `then`, in whole seconds.
fn since(then: Time, wall: Time) -> Duration {
    Duration::from_secs(u64::try_from(wall.unix().saturating_sub(then.unix())).unwrap_or(0))
}
