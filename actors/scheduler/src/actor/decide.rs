//! The deciding side of the scheduler: the holder of the arbiter's unit decides about its own pods and about proposals of other shards, and starts the writes.

use std::sync::Arc;

use oarlock_mesh::Claim;
use oarlock_meta::Revision;
use oarlock_runtime::{Failure, clock, rng};

use crate::engine::{Authority, Decision, ProposalError, Unfit};
use crate::framework::Call;
use crate::model::{PodInfo, Uid};
use crate::queue::{Popped, Stamp};

use super::attempt_metrics::Attempt;
use super::bind;
use super::duties::Parts;
use super::inbox::PendingProposal;
use super::outcome::{Done, Origin, Outcome};
use super::proposal_messages::ProposalVerdict;
use super::proposals::{Preempts, Sent};
use super::{DECISIONS_PER_TURN, Shell, spans};

/// Result of looking up a proposal's pod in the cache.
enum Found {
    Pod(Arc<PodInfo>),
    /// The proposal is refused; the text says why.
    Not(&'static str),
    /// The cache does not show the pod yet.
    Later,
}

impl Shell {
    /// Adjusts queue, listener and publisher to the units that this process holds now.
    pub(super) fn update_duties(&mut self, now: Stamp) {
        let (claim, at) = (self.duties.arbiter(), clock::now());
        let epoch = claim.as_ref().map(Claim::epoch);
        self.inbox.set_epoch(epoch, at);
        self.proposal_bus.receive_for(&self.ctx, epoch);
        self.relay.publish_under(&self.ctx, epoch.filter(|_| self.inbox.has_active_peer(at)));
        self.status.decides = claim.is_some();
        let parts = match (claim.is_some(), self.proposal_bus.is_configured()) {
            (true, true) => self.duties.shards().with(self.inbox.silent(self.duties.every_shard(), at)),
            (true, false) => self.duties.every_shard(),
            (false, true) => self.duties.shards(),
            (false, false) => Parts::default(),
        };
        self.intake.queue_only(&mut self.engine, parts, now);
        let decider = epoch.or_else(|| self.duties.elsewhere());
        if decider.is_some() && std::mem::replace(&mut self.decider, decider) != decider {
            self.proposals.hurry(at);
        }
        if self.proposes().is_none() {
            let unsent = self.proposals.recall();
            unsent.iter().for_each(|sent| self.give_back(&sent.popped.pod, now));
        }
        for uid in self.proposals.due(at, self.intake.pods().revision()) {
            if !self.engine.queue.again(&uid) {
                // The pod is deleted or bound, so no further result will arrive.
                self.proposals.done(&uid);
            }
        }
    }

    /// Makes decisions while more bindings or proposals may be started; returns the number of decisions.
    pub(super) fn decide(&mut self) -> Result<usize, Failure> {
        let Some(claim) = self.duties.arbiter() else { return self.propose() };
        self.others_first = !self.others_first;
        Ok(if self.others_first {
            let judged = self.judge(&claim);
            judged + self.place(&claim)
        } else {
            let placed = self.place(&claim);
            placed + self.judge(&claim)
        })
    }

    /// Decides about waiting pods of this process's own queue.
    fn place(&mut self, claim: &Claim) -> usize {
        let mut decided = 0;
        while decided < DECISIONS_PER_TURN && self.binds.len() < self.set.config.max_binds {
            let Some(decision) = self.look(Authority::Local(claim)) else { break };
            decided += 1;
            self.act(decision);
        }
        decided
    }

    /// Returns the decision about the next waiting pod, if there is one.
    pub(super) fn look<'a>(&mut self, authority: Authority<&'a Claim>) -> Option<Decision<&'a Claim>> {
        let (now, began) = (self.now(), clock::now());
        let decision = self.engine.next(authority, now, &mut |below| rng::below(u64::from(below)) as u32)?;
        self.status.decided.since(began);
        if matches!(decision, Decision::Bind { .. } | Decision::Propose { .. }) {
            self.set.metrics.found_node(began.elapsed());
        }
        spans::decided(&decision, self.origin, began, self.relay.contexts());
        Some(decision)
    }

    /// Decides about the proposals of other shards.
    fn judge(&mut self, claim: &Claim) -> usize {
        self.inbox.requeue_set_aside();
        let mut decided = 0;
        for _ in 0..self.inbox.waiting() {
            if decided == DECISIONS_PER_TURN || self.binds.len() >= self.set.config.max_binds {
                break;
            }
            let Some(case) = self.inbox.next() else { break };
            let pod = match self.find(&case) {
                Found::Later => {
                    self.inbox.set_aside(case);
                    continue;
                }
                Found::Pod(pod) => pod,
                Found::Not(why) => {
                    let seen = self.intake.pods().revision();
                    let (constraint, text) = (why.to_owned(), why.to_owned());
                    self.inbox.record(case.slot, ProposalVerdict::Refused { constraint, text, seen });
                    continue;
                }
            };
            let (now, began) = (self.now(), clock::now());
            let judged = match case.proposed.victims.as_slice() {
                [] => self.engine.judge(&pod, &case.proposed.node, now),
                victims => {
                    let victims: Vec<Uid> = victims.iter().map(|uid| Arc::from(uid.as_str())).collect();
                    self.engine.judge_preemption(&pod, &case.proposed.node, &victims)
                }
            };
            self.status.judged.since(began);
            decided += 1;
            let refused = judged.as_ref().err().map(|error| match error {
                ProposalError::Refused(refusal) => refusal.constraint.label(),
                ProposalError::Failed(_) => "a plugin",
            });
            spans::arbitrated(&pod, &case.proposed.node, case.received, refused);
            match judged {
                Ok(calls) => {
                    let node = Arc::from(case.proposed.node.as_str());
                    let what = (Origin::Proposed(case.slot), pod, node);
                    self.start(claim, what, calls);
                }
                Err(ProposalError::Refused(refusal)) => {
                    let constraint = refusal.constraint.label().to_owned();
                    let (text, seen) = (format!("{:?}", refusal.constraint), self.intake.pods().revision());
                    tracing::debug!(pod = &*pod.name, node = case.proposed.node, text, "proposal refused");
                    self.inbox.record(case.slot, ProposalVerdict::Refused { constraint, text, seen });
                    self.engine.last_refusal = Some(refusal);
                }
                Err(ProposalError::Failed(text)) => self.inbox.record(case.slot, ProposalVerdict::Failed { text }),
            }
        }
        decided
    }

    /// Looks up a proposal's pod in the cache. The decision uses the cached state; the proposal's own fields only identify the pod.
    fn find(&self, case: &PendingProposal) -> Found {
        let (pods, proposed) = (self.intake.pods(), &case.proposed);
        let known = pods.named(&proposed.namespace, &proposed.name);
        match known.filter(|item| *item.value.info.uid == *proposed.uid) {
            Some(item) if item.value.ended || item.value.info.terminating => Found::Not("terminating"),
            Some(item) if !item.value.info.gates.is_empty() => Found::Not("gated"),
            Some(item) if !self.intake.is_served(&item.value.info) => Found::Not("scheduler"),
            Some(item) => Found::Pod(Arc::clone(&item.value.info)),
            None if pods.revision() >= proposed.version => Found::Not("gone"),
            None if case.deadline().passed() => Found::Not("unseen"),
            None => Found::Later,
        }
    }

    /// Carries a decision out.
    pub(super) fn act(&mut self, decision: Decision<&Claim>) {
        match decision {
            Decision::Bind { claim, popped, node, calls } => {
                let (pod, origin) = (Arc::clone(&popped.pod), Origin::Own(popped));
                self.start(claim, (origin, pod, node), calls);
            }
            Decision::Preempt { claim, popped, node, unfit, calls } => {
                self.ended(&popped, Attempt::Unschedulable);
                self.start(claim, (Origin::OwnPreemption(unfit), popped.pod, node), calls);
            }
            Decision::Propose { popped, node } => {
                self.proposals.push(Sent { popped, node, preempts: None, began: spans::begin() });
            }
            Decision::ProposePreemption { popped, node, unfit, victims } => {
                self.ended(&popped, Attempt::Unschedulable);
                let preempts = Some(Preempts { unfit, victims });
                self.proposals.push(Sent { popped, node, preempts, began: spans::begin() });
            }
            Decision::Unschedulable { popped, message, denominated } => {
                self.status.unschedulable += 1;
                self.ended(&popped, Attempt::Unschedulable);
                let pod = &popped.pod;
                self.report(pod, |reporter, claim| reporter.unschedulable(claim, pod, message, denominated));
            }
            Decision::Postponed { popped, message } => {
                self.status.failed += 1;
                self.ended(&popped, Attempt::Error);
                self.report(&popped.pod, |reporter, claim| reporter.failed(claim, &popped.pod, message));
            }
            Decision::Skipped { popped } => {
                self.report(&popped.pod, |reporter, claim| reporter.skipped(claim, &popped.pod));
            }
        }
    }

    /// Reports about a pod under the claim to its shard or, when this process replaces a silent holder, under the arbiter's claim.
    pub(super) fn report(&mut self, pod: &PodInfo, say: impl FnOnce(&mut super::Reporter, &Claim)) {
        let shard = self.duties.shard(self.duties.part(pod));
        if let Some(claim) = shard.or_else(|| self.duties.arbiter()) {
            say(&mut self.reporter, &claim);
        }
    }

    /// Records the end of an attempt of this process's own queue.
    pub(super) fn ended(&self, popped: &Popped, result: Attempt) {
        self.set.metrics.ended(popped, result, self.now());
    }

    fn start(&mut self, claim: &Claim, what: (Origin, Arc<PodInfo>, Arc<str>), calls: Vec<Call>) {
        self.set.metrics.preemption(&calls);
        self.binds.push(bind::start(&self.ctx, &self.set, claim, what, calls));
    }

    /// Records that a pod of this process's own queue is nominated and waits for its victims' deletion.
    pub(super) fn preempted(&mut self, pod: &Arc<PodInfo>, unfit: Unfit, revision: u64, now: Stamp) {
        self.status.unschedulable += 1;
        self.engine.preempted(&pod.uid, unfit.rejectors, revision, now);
        self.intake.remind(&mut self.engine, pod, now);
        self.report(pod, |reporter, claim| reporter.unschedulable(claim, pod, unfit.message, false));
    }

    /// Handles the outcome of a binding or a preemption.
    pub(super) fn settle(&mut self, outcome: Outcome) {
        let Outcome { origin, pod, node, result } = outcome;
        let verdict = match result {
            Ok(Done::Nominated(revision)) => {
                let now = self.now();
                match &origin {
                    Origin::OwnPreemption(unfit) => self.preempted(&pod, unfit.clone(), revision, now),
                    Origin::Own(_) | Origin::Proposed(_) => {
                        self.engine.nominated(&pod.uid, revision);
                        self.intake.remind(&mut self.engine, &pod, now);
                    }
                }
                ProposalVerdict::Nominated { revision: Revision(revision) }
            }
            Ok(Done::Bound) => {
                self.status.bound += 1;
                self.engine.bound(&pod);
                self.reporter.bound(&pod, &node);
                ProposalVerdict::Bound
            }
            Err(failure) => {
                self.status.failed += 1;
                let now = self.now();
                if let Some(revision) = failure.nominated {
                    self.engine.stopped_half_way(&pod.uid, revision);
                }
                self.engine.withdraw(&pod.uid, now);
                self.engine.unbound(&pod, &node, now);
                // The pod's shard may have moved to this process since the binding began.
                self.intake.remind(&mut self.engine, &pod, now);
                tracing::info!(pod = &*pod.name, node = &*node, failure = failure.text, "pod not bound");
                match &failure.stale {
                    Some(fence) => {
                        self.duties.lost(fence);
                        ProposalVerdict::Stale
                    }
                    None => {
                        if !matches!(origin, Origin::Proposed(_)) && !failure.unreported {
                            self.report(&pod, |reporter, claim| reporter.failed(claim, &pod, failure.text.clone()));
                        }
                        ProposalVerdict::Failed { text: failure.text }
                    }
                }
            }
        };
        match origin {
            Origin::Proposed(slot) => self.inbox.record(slot, verdict),
            Origin::OwnPreemption(_) => tracing::debug!(pod = &*pod.name, node = &*node, ?verdict, "preemption ended"),
            Origin::Own(popped) => {
                let bound = matches!(verdict, ProposalVerdict::Bound);
                self.ended(&popped, if bound { Attempt::Scheduled } else { Attempt::Error });
                let (attempt, waited) = (popped.attempt, self.now().since(popped.first_attempt));
                tracing::debug!(pod = &*pod.name, node = &*node, attempt, ?waited, ?verdict, "binding ended");
            }
        }
    }
}
