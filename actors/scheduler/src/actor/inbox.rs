//! The arbiter's side of proposals: received batches that wait for their verdicts, and the shards whose holders are silent.
//!
//! A batch is answered when each of its proposals is bound or refused. If a shard's holder sends nothing for [`SILENCE_LIMIT`], the arbiter's process
//! schedules the shard's pods itself, whatever the reason: the bus is down, the holder is cut off, or the holder has ended unnoticed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::Instant;
use oarlock_seeded_bug::seeded_bug;
use tokio::sync::oneshot;

use super::duties::Parts;
use super::proposal_messages::{Batch, ProposalVerdict, Proposed};

/// How long a shard's holder may send nothing before the arbiter's process takes over the shard's pods.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(3);
/// How long a proposal waits until the arbiter's cache shows the pod.
const UNSEEN_LIMIT: Duration = Duration::from_secs(1);
/// Number of waiting proposals from which no further batch is received.
const MAX_WAITING: usize = 512;

/// A received batch of proposals, with the channel for its verdicts.
#[derive(Debug)]
pub(super) struct ReceivedBatch {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Vec<ProposalVerdict>>,
}

/// Address of one verdict: the batch's number, and the position in the batch.
pub(super) type Slot = (u64, usize);

/// A received proposal that waits for the arbiter's decision.
#[derive(Debug)]
pub(super) struct PendingProposal {
    pub(super) slot: Slot,
    pub(super) proposed: Proposed,
    /// When the proposal was received.
    pub(super) received: Instant,
}

impl PendingProposal {
    /// Returns until when the proposal waits for its pod to appear in the cache.
    pub(super) fn deadline(&self) -> Instant {
        self.received + UNSEEN_LIMIT
    }
}

struct OpenBatch {
    answer: oneshot::Sender<Vec<ProposalVerdict>>,
    verdicts: Vec<ProposalVerdict>,
    left: usize,
}

/// The arbiter's queue of received proposals, with the time of each shard's last message.
#[derive(Default)]
pub(super) struct ProposalInbox {
    epoch: Option<Revision>,
    since: Option<Instant>,
    open: BTreeMap<u64, OpenBatch>,
    batches: u64,
    waiting: VecDeque<PendingProposal>,
    unseen: VecDeque<PendingProposal>,
    last_message: BTreeMap<usize, Instant>,
}

impl ProposalInbox {
    /// Accepts proposals for `epoch` from now on; `None` accepts no proposal. A change of epoch answers every undecided proposal with `Stale`.
    pub(super) fn set_epoch(&mut self, epoch: Option<Revision>, now: Instant) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        self.since = epoch.map(|_| now);
        self.last_message.clear();
        for case in std::mem::take(&mut self.waiting).into_iter().chain(std::mem::take(&mut self.unseen)) {
            self.record(case.slot, ProposalVerdict::Stale);
        }
    }

    /// Whether any other process has sent a message within [`SILENCE_LIMIT`].
    pub(super) fn has_active_peer(&self, now: Instant) -> bool {
        self.last_message.values().any(|at| *at + SILENCE_LIMIT > now)
    }

    /// Whether the queue has room for another batch.
    pub(super) fn has_room(&self) -> bool {
        self.epoch.is_some() && self.waiting.len() + self.unseen.len() < MAX_WAITING
    }

    /// Queues the proposals of a batch. A batch for another epoch is answered with `Stale`.
    pub(super) fn take(&mut self, asked: ReceivedBatch, now: Instant) {
        let ReceivedBatch { batch, answer } = asked;
        let current = self.epoch == Some(batch.epoch) || seeded_bug!("late_proposal_accepted");
        let verdicts = vec![ProposalVerdict::Stale; batch.proposals.len()];
        if !current || verdicts.is_empty() {
            // A failed send means that the proposer has stopped waiting; its shard checks the result by itself.
            let _ = answer.send(verdicts);
        } else {
            self.batches += 1;
            self.open.insert(self.batches, OpenBatch { answer, left: verdicts.len(), verdicts });
            let cases = batch.proposals.into_iter().enumerate();
            self.waiting.extend(cases.map(|(at, proposed)| PendingProposal {
                slot: (self.batches, at),
                proposed,
                received: now,
            }));
        }
        if current {
            self.last_message.extend(Parts(batch.shards).iter().map(|part| (part, now)));
        }
    }

    /// Returns the number of proposals that can be decided now.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Removes and returns the next proposal to decide.
    pub(super) fn next(&mut self) -> Option<PendingProposal> {
        self.waiting.pop_front()
    }

    /// Sets a proposal aside until the cache shows its pod.
    pub(super) fn set_aside(&mut self, case: PendingProposal) {
        self.unseen.push_back(case);
    }

    /// Queues the proposals again that were set aside by [`ProposalInbox::set_aside`].
    pub(super) fn requeue_set_aside(&mut self) {
        self.waiting.append(&mut self.unseen);
    }

    /// Records the verdict on one proposal, and answers the batch when all its verdicts are known.
    pub(super) fn record(&mut self, (batch, at): Slot, verdict: ProposalVerdict) {
        let Some(open) = self.open.get_mut(&batch) else { return };
        if let Some(slot) = open.verdicts.get_mut(at) {
            *slot = verdict;
        }
        open.left = open.left.saturating_sub(1);
        if open.left == 0
            && let Some(open) = self.open.remove(&batch)
        {
            let _ = open.answer.send(open.verdicts);
        }
    }

    /// Returns the shards among `parts` whose holders have been silent for [`SILENCE_LIMIT`].
    pub(super) fn silent(&self, parts: Parts, now: Instant) -> Parts {
        let mut silent = Parts::default();
        let Some(since) = self.since else { return silent };
        let last = |part: &usize| self.last_message.get(part).copied().unwrap_or(since);
        parts.iter().filter(|part| last(part) + SILENCE_LIMIT <= now).for_each(|part| silent.insert(part));
        silent
    }

    /// Returns the next deadline without events: when a shard counts as silent, or a proposal has waited too long for its pod.
    pub(super) fn wakeup(&self, parts: Parts, now: Instant) -> Option<Instant> {
        let since = self.since?;
        let ends = parts.iter().map(|part| self.last_message.get(&part).copied().unwrap_or(since) + SILENCE_LIMIT);
        let unseen = self.unseen.front().map(PendingProposal::deadline);
        ends.filter(|end| *end > now).chain(unseen).min()
    }
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::clock;

    use super::*;

    fn batch(epoch: u64, names: &[&str]) -> (ReceivedBatch, oneshot::Receiver<Vec<ProposalVerdict>>) {
        let (answer, answered) = oneshot::channel();
        let proposed = |name: &&str| Proposed {
            namespace: "default".to_owned(),
            name: (*name).to_owned(),
            uid: (*name).to_owned(),
            version: Revision(1),
            node: "n1".to_owned(),
            victims: Vec::new(),
        };
        let proposals = names.iter().map(proposed).collect();
        let batch = Batch { epoch: Revision(epoch), seen: Revision(1), shards: 0b11, proposals };
        (ReceivedBatch { batch, answer }, answered)
    }

    #[tokio::test]
    async fn a_proposal_for_another_epoch_is_not_looked_at() {
        let (mut inbox, now) = (ProposalInbox::default(), clock::now());
        for epoch in [None, Some(Revision(9))] {
            inbox.set_epoch(epoch, now);
            let (late, answered) = batch(7, &["a"]);
            inbox.take(late, now);
            assert!(inbox.next().is_none(), "{epoch:?}");
            assert_eq!(answered.await.unwrap(), [ProposalVerdict::Stale]);
        }
        // A batch for an old epoch does not count as a message in the new one.
        assert_eq!(inbox.silent(Parts(0b111), now + SILENCE_LIMIT), Parts(0b111));
    }

    #[tokio::test]
    async fn a_batch_is_answered_in_its_order_once_all_is_said() {
        let (mut inbox, now) = (ProposalInbox::default(), clock::now());
        inbox.set_epoch(Some(Revision(7)), now);
        let (asked, mut answered) = batch(7, &["a", "b"]);
        inbox.take(asked, now);
        let (first, second) = (inbox.next().unwrap(), inbox.next().unwrap());
        inbox.record(second.slot, ProposalVerdict::Bound);
        assert!(answered.try_recv().is_err());
        inbox.set_aside(first);
        inbox.requeue_set_aside();
        let first = inbox.next().unwrap();
        let refused =
            ProposalVerdict::Refused { constraint: "port".to_owned(), text: String::new(), seen: Revision(3) };
        inbox.record(first.slot, refused.clone());
        assert_eq!(answered.await.unwrap(), [refused, ProposalVerdict::Bound]);
    }

    #[tokio::test]
    async fn who_loses_the_post_says_so_to_those_who_wait() {
        let (mut inbox, now) = (ProposalInbox::default(), clock::now());
        inbox.set_epoch(Some(Revision(7)), now);
        let (asked, answered) = batch(7, &["being-bound", "waits", "unseen"]);
        inbox.take(asked, now);
        let (binding, unseen) = (inbox.next().unwrap(), inbox.waiting.pop_back().unwrap());
        inbox.set_aside(unseen);
        inbox.set_epoch(None, now);
        inbox.record(binding.slot, ProposalVerdict::Bound);
        assert_eq!(answered.await.unwrap(), [ProposalVerdict::Bound, ProposalVerdict::Stale, ProposalVerdict::Stale]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_silent_until_its_holder_speaks() {
        let (mut inbox, start) = (ProposalInbox::default(), clock::now());
        let all = Parts(0b111);
        assert_eq!(inbox.silent(all, start + 10 * SILENCE_LIMIT), Parts(0), "no epoch is set");
        inbox.set_epoch(Some(Revision(7)), start);
        assert_eq!(inbox.silent(all, start), Parts(0), "no time to send a message");
        assert_eq!(inbox.wakeup(all, start), Some(start + SILENCE_LIMIT));
        let (asked, _) = batch(7, &[]);
        inbox.take(asked, start + Duration::from_secs(1));
        assert_eq!(inbox.silent(all, start + SILENCE_LIMIT), Parts(0b100));
        assert_eq!(inbox.silent(all, start + Duration::from_secs(1) + SILENCE_LIMIT), all);
    }
}
