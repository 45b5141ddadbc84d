//! Which keys a controller works on in this process, and under which claim.
//!
//! A unit that is newly held is not worked on before every cache of the controller has come past the unit's epoch: then it shows everything
//! that the unit's former holder has committed, and what that one still sends is refused. Only then all keys of the unit are looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_mesh::{Claim, Placement, Scope, Unit};
use oarlock_meta::Revision;
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::RwLock;

use super::source::Source;
use crate::key::Key;
use crate::work_queue::WorkQueue;

/// How often a controller that waits for its caches says so.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module text.
#[derive(Default)]
pub(super) struct Share {
    /// None: every key is worked on here, without a claim.
    of: Option<(Placement, Scope)>,
    /// The units that are worked on, and under which epoch.
    active: RwLock<BTreeMap<Unit, Revision>>,
}

impl Share {
    /// What `placement` gives of `scope`.
    pub(super) fn of(placement: &Placement, scope: Scope) -> Self {
        let of = (!placement.is_everything()).then(|| (placement.clone(), scope));
        Self { of, active: RwLock::default() }
    }

    /// The claim under which a key is worked on; none when that is not for this process, or not yet.
    pub(super) fn claim(&self, key: &Key) -> Option<Claim> {
        let Some((placement, scope)) = &self.of else { return Some(Claim { fence: None }) };
        let unit = scope.unit(&key.namespace, &key.name)?;
        let claim = placement.claim(unit)?;
        (self.active.read().get(unit) == Some(&claim.epoch())).then_some(claim)
    }

    /// Adds a key to the queue if it is worked on here.
    pub(super) fn enqueue(&self, queue: &WorkQueue<Key>, key: Key) {
        if self.claim(&key).is_some() {
            queue.add(key);
        }
    }

    /// A write under this claim was refused.
    pub(super) fn lost(&self, claim: &Claim) {
        if let (Some((placement, _)), Some(fence)) = (&self.of, &claim.fence) {
            placement.lost(fence);
        }
    }

    /// Takes up what is newly held and lets go of what is not any more, for as long as it is polled.
    pub(super) async fn keep(&self, name: &str, sources: &[Arc<dyn Source>], queue: &WorkQueue<Key>) {
        let Some((placement, scope)) = &self.of else { return std::future::pending().await };
        let mut changes = placement.follow();
        loop {
            let epoch = |unit: &Unit| Some((unit.clone(), placement.claim(unit)?.epoch()));
            let held: BTreeMap<Unit, Revision> = scope.units().iter().filter_map(epoch).collect();
            let taken: BTreeMap<Unit, Revision> = {
                let mut active = self.active.write();
                active.retain(|unit, epoch| held.get(unit) == Some(epoch));
                held.into_iter().filter(|(unit, _)| !active.contains_key(unit)).collect()
            };
            let Some(newest) = taken.values().max().copied() else {
                changes.next().await;
                continue;
            };
            tokio::select! {
                biased;
                () = changes.next() => {}
                () = caught_up(name, sources, newest) => {
                    tracing::debug!(controller = name, units = taken.len(), epoch = newest.get(), "takes up units");
                    let units: Vec<Unit> = taken.keys().cloned().collect();
                    self.active.write().extend(taken);
                    let mut enqueue = |key: Key| {
                        if scope.unit(&key.namespace, &key.name).is_some_and(|unit| units.contains(unit)) {
                            self.enqueue(queue, key);
                        }
                    };
                    sources.iter().for_each(|source| source.all(&mut enqueue));
                }
            }
        }
    }
}

/// Waits until every cache shows everything up to `epoch`.
async fn caught_up(name: &str, sources: &[Arc<dyn Source>], epoch: Revision) {
    let epoch = if seeded_bug!("owner_without_catch_up") { Revision::ZERO } else { epoch };
    loop {
        let all = join_all(sources.iter().map(|source| source.at_least(epoch, clock::after(PATIENCE)))).await;
        match all.into_iter().find_map(Result::err) {
            Some(lagging) => tracing::warn!(controller = name, %lagging, "waiting for caches"),
            None => return,
        }
    }
}
