//! The shard's side of proposals: those sent to the arbiter of another process, and pods that are parked for another attempt.
//!
//! Proposals are sent in batches, in bounded number at once. Each proposal ends as bound, refused, not delivered, or unknown. After an unknown result the
//! cache is brought up to date before the pod is proposed again; proposing twice is safe, because the arbiter refuses a pod that is bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use oarlock_meta::Revision;
use oarlock_runtime::Instant;

use crate::engine::Unfit;
use crate::map::Map;
use crate::model::Uid;
use crate::queue::Popped;

use super::names::namespace;
use super::proposal_messages::{Batch, ProposalVerdict, Proposed};

/// Bound of proposals in one batch.
pub(super) const MAX_BATCH: usize = 64;
/// Bound of batches sent and not answered.
const MAX_BATCHES: usize = 8;
/// Bound of pods with a proposed node and no final result.
const MAX_OPEN: usize = MAX_BATCH * MAX_BATCHES;
/// Number of refusals after which a pod goes into back-off.
const MAX_REFUSALS: u32 = 8;
/// Pause after a pod's first refusal; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// How long a parked pod waits for the cache to reach the revision at which the arbiter refused it.
const CACHE_WAIT: Duration = Duration::from_secs(1);
/// Time without a batch after which an empty batch is sent as a heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A proposal to the arbiter of another process.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) popped: Popped,
    pub(super) node: Arc<str>,
    pub(super) preempts: Option<Preempts>,
    /// When the node was proposed; `None` while no spans are recorded.
    pub(super) began: Option<Instant>,
}

/// The preemption that is proposed for a pod that fits on no node.
#[derive(Clone, Debug)]
pub(super) struct Preempts {
    pub(super) unfit: Unfit,
    pub(super) victims: Vec<Uid>,
}

/// Why a batch has no verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoVerdict {
    /// The arbiter certainly did not process the batch; another batch may be sent after this pause.
    Undelivered(Duration, String),
    /// The batch may have been carried out; the cache must be brought up to date first.
    Unknown(String),
    /// The batch may have been carried out, and its pods may be proposed again at once: the next arbiter, or the cache, knows the result.
    AskAgain,
}

/// The result of a batch.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) batch: Vec<Sent>,
    pub(super) result: Result<Vec<ProposalVerdict>, NoVerdict>,
}

/// The proposals of this process without a final result.
#[derive(Default)]
pub(super) struct Proposals {
    out: Vec<Sent>,
    asks: FuturesUnordered<BoxFuture<'static, Answered>>,
    asked: usize,
    parked: BTreeMap<(Instant, u64), (Uid, Revision)>,
    numbers: u64,
    refusals: Map<Uid, u32>,
    last: Option<Instant>,
    pause: Option<Instant>,
}

impl Proposals {
    /// Whether another pod may be proposed.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.out.len() + self.asked + self.parked.len() < MAX_OPEN && self.pause.is_none_or(|until| until <= now)
    }

    /// Returns the number of pods with a proposed node and no final result.
    pub(super) fn open(&self) -> usize {
        self.out.len() + self.asked + self.parked.len()
    }

    /// Queues a proposal for sending.
    pub(super) fn push(&mut self, sent: Sent) {
        self.out.push(sent);
    }

    /// Removes and returns the proposals that have not been sent, because there is no other arbiter to send them to.
    pub(super) fn recall(&mut self) -> Vec<Sent> {
        self.last = None;
        self.pause = None;
        std::mem::take(&mut self.out)
    }

    /// Returns the next batch to send; an empty one if a heartbeat is due.
    pub(super) fn next_batch(&mut self, now: Instant) -> Option<Vec<Sent>> {
        let may = self.asks.len() < MAX_BATCHES && self.pause.is_none_or(|until| until <= now);
        let hello = self.last.is_none_or(|last| last + HEARTBEAT_INTERVAL <= now);
        if !may || (self.out.is_empty() && !hello) {
            return None;
        }
        self.last = Some(now);
        let rest = self.out.split_off(self.out.len().min(MAX_BATCH));
        let batch = std::mem::replace(&mut self.out, rest);
        self.asked += batch.len();
        Some(batch)
    }

    /// Records a sent batch; the future yields its result.
    pub(super) fn sent(&mut self, ask: BoxFuture<'static, Answered>) {
        self.asks.push(ask);
    }

    /// Waits for the result of a sent batch; waits forever while no batch is open. Cancel safe.
    pub(super) async fn progress(&mut self) -> Answered {
        match self.asks.next().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }

    /// Records that `count` sent proposals have a final result or are parked.
    pub(super) fn settled(&mut self, count: usize) {
        self.asked = self.asked.saturating_sub(count);
    }

    /// Sends no batch before `until`.
    pub(super) fn pause(&mut self, until: Instant) {
        self.pause = Some(until);
    }

    /// Counts a refusal of a pod; returns when the pod is tried again, or `None` if it has to go into back-off.
    pub(super) fn refused(&mut self, uid: &Uid, now: Instant) -> Option<Instant> {
        let count = self.refusals.entry(Arc::clone(uid)).or_default();
        *count += 1;
        if *count >= MAX_REFUSALS {
            self.refusals.remove(uid);
            return None;
        }
        Some(now + FIRST_PAUSE * (1 << (*count - 1)))
    }

    /// Forgets a pod's refusals after a final result.
    pub(super) fn done(&mut self, uid: &str) {
        self.refusals.remove(uid);
    }

    /// Parks a pod until `at`, and for at most [`CACHE_WAIT`] longer until the cache has reached revision `seen`.
    pub(super) fn park(&mut self, uid: &Uid, at: Instant, seen: Revision) {
        self.numbers += 1;
        self.parked.insert((at, self.numbers), (Arc::clone(uid), seen));
    }

    /// Ends the waits that were only for a new arbiter: the pause in sending, and parked pods without a revision to reach.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.pause = None;
        let parked = std::mem::take(&mut self.parked).into_iter();
        let sooner = |at: Instant, seen: Revision| if seen.is_zero() { at.min(now) } else { at };
        self.parked = parked.map(|((at, number), pod)| ((sooner(at, pod.1), number), pod)).collect();
    }

    /// Removes and returns the parked pods that are due at `now` with a cache at `revision`.
    pub(super) fn due(&mut self, now: Instant, revision: Revision) -> Vec<Uid> {
        let come = self.parked.range(..=(now, u64::MAX));
        let ready = come.filter(|((at, _), (_, seen))| *seen <= revision || *at + CACHE_WAIT <= now);
        let keys: Vec<_> = ready.map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| self.parked.remove(key)).map(|(uid, _)| uid).collect()
    }

    /// Returns the next deadline at which a parked pod or a batch is due.
    pub(super) fn wakeup(&self, now: Instant) -> Option<Instant> {
        let parked = self.parked.keys().next().map(|(at, _)| if *at > now { *at } else { *at + CACHE_WAIT });
        let hello = self.last.map(|last| last + HEARTBEAT_INTERVAL);
        let may = if self.asks.len() < MAX_BATCHES { hello.max(self.pause) } else { None };
        parked.into_iter().chain(may).min()
    }
}

/// Builds the message for a batch.
pub(super) fn batch(sent: &[Sent], epoch: Revision, seen: Revision, shards: u32) -> Batch {
    let victims = |preempts: &Preempts| preempts.victims.iter().map(|uid| (**uid).to_owned()).collect();
    let proposals = sent.iter().map(|Sent { popped, node, preempts, .. }| Proposed {
        namespace: (*namespace(&popped.pod)).to_owned(),
        name: (*popped.pod.name).to_owned(),
        uid: (*popped.pod.uid).to_owned(),
        version: Revision(popped.pod.version),
        node: (**node).to_owned(),
        victims: preempts.as_ref().map(victims).unwrap_or_default(),
    });
    Batch { epoch, seen, shards, proposals: proposals.collect() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use oarlock_runtime::clock;

    use super::*;
    use crate::queue::Stamp;
    use crate::testing::World;

    fn proposed(name: &str) -> Sent {
        let pod = World::new(&[]).pod(name, "");
        let popped = Popped { pod, queued: Stamp(0), attempt: 1, first_attempt: Stamp(0), taken: Stamp(0) };
        Sent { popped, node: "n1".into(), preempts: None, began: None }
    }

    #[tokio::test(start_paused = true)]
    async fn batches_are_bounded_and_silence_is_broken() {
        let (mut proposals, now) = (Proposals::default(), clock::now());
        assert_eq!(proposals.next_batch(now).map(|batch| batch.len()), Some(0), "it says that it is there");
        assert!(proposals.next_batch(now).is_none());
        assert_eq!(proposals.wakeup(now), Some(now + HEARTBEAT_INTERVAL));
        let mut pushed = 0;
        while proposals.has_room(now) {
            proposals.push(proposed(&format!("p{pushed}")));
            pushed += 1;
        }
        assert_eq!(pushed, MAX_OPEN);
        for _ in 0..MAX_BATCHES {
            let batch = proposals.next_batch(now).unwrap();
            assert_eq!(batch.len(), MAX_BATCH);
            let ask = async move { Answered { batch, result: Err(NoVerdict::AskAgain) } };
            proposals.sent(ask.boxed());
        }
        assert!(proposals.next_batch(now + HEARTBEAT_INTERVAL).is_none(), "no more than so many at once");
        let answered = proposals.progress().await;
        proposals.settled(answered.batch.len());
        assert_eq!(proposals.open(), MAX_OPEN - MAX_BATCH);
        assert!(proposals.has_room(now));
        proposals.pause(now + HEARTBEAT_INTERVAL);
        assert!(!proposals.has_room(now) && proposals.next_batch(now).is_none());
        assert!(proposals.has_room(now + HEARTBEAT_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_pod_waits_for_fresh_caches_and_backs_off_in_the_end() {
        let (mut proposals, now) = (Proposals::default(), clock::now());
        let uid: Uid = "a".into();
        let again = proposals.refused(&uid, now).unwrap();
        assert_eq!(again, now + FIRST_PAUSE);
        proposals.park(&uid, again, Revision(9));
        assert!(proposals.due(now, Revision(9)).is_empty(), "before its time");
        assert!(proposals.due(again, Revision(8)).is_empty(), "on what the arbiter had not seen");
        assert_eq!(proposals.wakeup(again), Some(again + CACHE_WAIT));
        assert_eq!(proposals.due(again, Revision(9)), std::slice::from_ref(&uid));
        proposals.park(&uid, again, Revision(9));
        assert_eq!(
            proposals.due(again + CACHE_WAIT, Revision(8)),
            std::slice::from_ref(&uid),
            "caches that do not come"
        );
        let (refused, stale): (Uid, Uid) = ("refused".into(), "stale".into());
        proposals.park(&refused, again, Revision(9));
        proposals.park(&stale, again, Revision::ZERO);
        proposals.pause(again);
        proposals.hurry(now);
        assert_eq!(proposals.due(now, Revision(9)), [stale], "only what waited for another arbiter");
        assert!(proposals.has_room(now));
        assert_eq!(proposals.due(again, Revision(9)), [refused]);
        let pauses: Vec<_> = std::iter::from_fn(|| proposals.refused(&uid, now)).map(|again| again - now).collect();
        assert_eq!(pauses.len(), MAX_REFUSALS as usize - 2);
        assert!(pauses.is_sorted() && pauses[0] == 2 * FIRST_PAUSE);
        assert_eq!(proposals.refused(&uid, now), Some(now + FIRST_PAUSE), "it begins anew");
    }
}
