//! Preemption: what becomes of a pod that fits nowhere, and who is expected where from then on.

use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::arbiter::{Constraint, Refusal};
use crate::column::NodeIx;
use crate::event::Event;
use crate::framework::{Call, Diagnosis, Nominating};
use crate::intern::Sym;
use crate::model::{PodInfo, Uid};
use crate::preempt::Preemption;
use crate::queue::{Popped, Stamp};

use super::{Decision, Engine, ProposalError, Seat};

/// Why a pod fits nowhere, for users and for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// The text for the event and the condition.
    pub(crate) message: String,
    /// Which plugins had a part in it.
    pub(crate) rejectors: u32,
}

impl Engine {
    /// What is done about a pod that fits nowhere.
    pub(super) fn strand(
        &mut self,
        seat: Seat,
        popped: Popped,
        diagnosis: &Diagnosis,
        (message, nominating): (String, Nominating),
        now: Stamp,
    ) -> Decision {
        let unfit = Unfit { message, rejectors: diagnosis.rejectors };
        match nominating {
            Nominating::Preempt(preemption) => self.preempt(seat, popped, unfit, preemption, now),
            Nominating::AsBefore => self.wait(popped, unfit, false, now),
            Nominating::Nowhere => {
                let over = self.cluster.nominations.remove(&popped.pod.uid);
                if let Some(over) = &over {
                    self.queue.on_event(&self.cluster, &Event::PodGone(over), now);
                }
                self.wait(popped, unfit, over.is_some(), now)
            }
        }
    }

    fn wait(&mut self, popped: Popped, unfit: Unfit, denominated: bool, now: Stamp) -> Decision {
        self.queue.rejected(&popped.pod.uid, unfit.rejectors, now);
        Decision::Unschedulable { popped, message: unfit.message, denominated }
    }

    /// The pod stays in flight until [`Engine::preempted`], or [`Engine::withdraw`] and what follows from that.
    fn preempt(
        &mut self,
        seat: Seat,
        popped: Popped,
        unfit: Unfit,
        Preemption { node: slot, victims }: Preemption,
        now: Stamp,
    ) -> Decision {
        let name = self.cluster.nodes.name(slot);
        let node = self.cluster.names.text(name);
        let victims: Vec<Uid> = victims.iter().map(|victim| Arc::clone(&victim.uid)).collect();
        if seat == Seat::Shard {
            self.cluster.nominations.decide(&popped.pod, name, victims.clone());
            return Decision::ProposePreemption { popped, node, unfit, victims };
        }
        match self.allow(&popped.pod, slot, &victims) {
            Ok(calls) => Decision::Preempt { popped, node, unfit, calls },
            Err(refusal) => {
                let message = refusal.to_string();
                self.last_refusal = Some(refusal);
                self.queue.failed(&popped.pod.uid, now);
                Decision::Postponed { popped, message }
            }
        }
    }

    /// Decides about another shard's proposal to preempt, on what is known here. If it is allowed, the pod is expected on the node at once; the
    /// outcome of the writes is told by [`Engine::nominated`] or [`Engine::withdraw`].
    pub(crate) fn judge_preemption(
        &mut self,
        pod: &Arc<PodInfo>,
        node: &str,
        victims: &[Uid],
    ) -> Result<Vec<Call>, ProposalError> {
        let seen = self.cluster.sequence();
        let refuse = |constraint| ProposalError::Refused(Refusal { constraint, seen, proposed: seen });
        if pod.node.is_some() {
            return Err(refuse(Constraint::Unplaced));
        }
        let Some(slot) = self.slot(node) else { return Err(refuse(Constraint::Node)) };
        self.allow(pod, slot, victims).map_err(ProposalError::Refused)
    }

    /// Asks the arbiter, and expects the pod on the node if it allows it. The writes are in an order that can stop after each: everybody knows for whom
    /// a victim leaves before it does.
    fn allow(&mut self, pod: &Arc<PodInfo>, slot: NodeIx, victims: &[Uid]) -> Result<Vec<Call>, Refusal> {
        let name = self.cluster.nodes.name(slot);
        let found = self.arbiter.allow(&mut self.cluster, pod, slot, victims)?;
        let lower = self.lower_nominated(pod, name);
        self.cluster.nominations.decide(pod, name, victims.to_vec());
        let staying: Vec<Arc<PodInfo>> = found.into_iter().filter(|victim| !victim.terminating).collect();
        self.victims += staying.len() as u64;
        let mut calls = vec![Call::Nominate];
        if !lower.is_empty() {
            calls.push(Call::Denominate(lower));
        }
        if !staying.is_empty() {
            calls.push(Call::Evict(staying));
        }
        Ok(calls)
    }

    /// Pods of lower priority that are expected on a node: there may be no room for them any more (upstream: `getLowerPriorityNominatedPods`).
    fn lower_nominated(&self, pod: &PodInfo, node: Sym) -> Vec<Arc<PodInfo>> {
        let nominated = self.cluster.nominations.on(node);
        nominated.filter(|other| other.priority < pod.priority && other.uid != pod.uid).cloned().collect()
    }

    /// A pod's nomination is written, at this revision of it, and its victims are on their way.
    pub(crate) fn nominated(&mut self, uid: &str, revision: u64) {
        self.cluster.nominations.written(uid, revision);
    }

    /// A pod's nomination is written, at this revision of it, and not every victim is on its way. What follows is as after [`Engine::withdraw`].
    pub(crate) fn stopped_half_way(&mut self, uid: &str, revision: u64) {
        if seeded_bug!("nomination_forgotten_half_way") {
            return;
        }
        self.cluster.nominations.waits_for_nobody(uid);
        self.nominated(uid, revision);
    }

    /// The same of a pod of our own, which now waits for its victims to be gone.
    pub(crate) fn preempted(&mut self, uid: &Uid, rejectors: u32, revision: u64, now: Stamp) {
        self.nominated(uid, revision);
        self.queue.rejected(uid, rejectors, now);
        let victims = self.cluster.nominations.victims_of(uid);
        // Their going may have been told while the pod was in flight.
        if !victims.iter().any(|victim| self.cluster.placed(victim).is_some()) {
            self.queue.wake(uid, now);
        }
    }
}
