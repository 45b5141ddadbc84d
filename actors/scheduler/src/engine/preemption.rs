//! Preemption in the engine: decides about a pod that fits on no node, and tracks its nomination.

use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::arbiter::{Constraint, Refusal};
use crate::column::NodeIx;
use crate::event::Event;
use crate::framework::{Call, Diagnosis};
use crate::intern::Sym;
use crate::model::{PodInfo, Uid};
use crate::post_filter::{Nominating, Preemption};
use crate::queue::{Popped, Stamp};

use super::{Authority, Decision, Engine, ProposalError};

/// Why a pod fits on no node, for the message to users and for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// The text for the event and the condition.
    pub(crate) message: String,
    /// The plugins that rejected a node or the pod.
    pub(crate) rejectors: u32,
}

impl Engine {
    /// Decides about a pod that fits on no node.
    pub(super) fn decide_unfit<C>(
        &mut self,
        authority: Authority<C>,
        popped: Popped,
        diagnosis: &Diagnosis,
        (message, nominating): (String, Nominating),
        now: Stamp,
    ) -> Decision<C> {
        let unfit = Unfit { message, rejectors: diagnosis.rejectors };
        match nominating {
            Nominating::Preempt(preemption) => self.preempt(authority, popped, unfit, preemption, now),
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

    fn wait<C>(&mut self, popped: Popped, unfit: Unfit, denominated: bool, now: Stamp) -> Decision<C> {
        self.queue.rejected(&popped.pod.uid, unfit.rejectors, now);
        Decision::Unschedulable { popped, message: unfit.message, denominated }
    }

    /// Decides about a preemption. The pod stays in flight until [`Engine::preempted`], or until [`Engine::withdraw`] and the queueing that follows.
    fn preempt<C>(
        &mut self,
        authority: Authority<C>,
        popped: Popped,
        unfit: Unfit,
        Preemption { node: slot, victims }: Preemption,
        now: Stamp,
    ) -> Decision<C> {
        let name = self.cluster.nodes.name(slot);
        let node = self.cluster.names.text(name);
        let victims: Vec<Uid> = victims.iter().map(|victim| Arc::clone(&victim.uid)).collect();
        let Authority::Local(claim) = authority else {
            self.cluster.nominations.decide(&popped.pod, name, victims.clone());
            return Decision::ProposePreemption { popped, node, unfit, victims };
        };
        match self.allow(&popped.pod, slot, &victims) {
            Ok(calls) => Decision::Preempt { claim, popped, node, unfit, calls },
            Err(refusal) => {
                let message = refusal.to_string();
                self.last_refusal = Some(refusal);
                self.queue.failed(&popped.pod.uid, now);
                Decision::Postponed { popped, message }
            }
        }
    }

    /// Decides about another shard's proposal to preempt, from this engine's state. If it is allowed, the pod is nominated to the node at once; the caller
    /// reports the outcome of the writes by [`Engine::nominated`] or [`Engine::withdraw`].
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

    /// Asks the arbiter, and nominates the pod if the preemption is allowed. The writes may stop after any of them: the nomination is written before a victim
    /// is evicted, so that every scheduler knows for which pod the room is freed.
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

    /// Returns the pods of lower priority that are nominated to a node: the node may have no room for them any more (upstream: `getLowerPriorityNominatedPods`).
    fn lower_nominated(&self, pod: &PodInfo, node: Sym) -> Vec<Arc<PodInfo>> {
        let nominated = self.cluster.nominations.on(node);
        nominated.filter(|other| other.priority < pod.priority && other.uid != pod.uid).cloned().collect()
    }

    /// Records that a pod's nomination is written, with the pod's revision, and that its victims are being evicted.
    pub(crate) fn nominated(&mut self, uid: &str, revision: u64) {
        self.cluster.nominations.written(uid, revision);
    }

    /// Records that a pod's nomination is written, with the pod's revision, but not every victim was evicted. The caller continues with [`Engine::withdraw`].
    pub(crate) fn stopped_half_way(&mut self, uid: &str, revision: u64) {
        if seeded_bug!("nomination_forgotten_half_way") {
            return;
        }
        self.cluster.nominations.waits_for_nobody(uid);
        self.nominated(uid, revision);
    }

    /// Records the nomination of a pod of this process's own queue; the pod then waits for its victims' deletion.
    pub(crate) fn preempted(&mut self, uid: &Uid, rejectors: u32, revision: u64, now: Stamp) {
        self.nominated(uid, revision);
        self.queue.rejected(uid, rejectors, now);
        let victims = self.cluster.nominations.victims_of(uid);
        // The victims may have been deleted while the pod was in flight.
        if !victims.iter().any(|victim| self.cluster.placed(victim).is_some()) {
            self.queue.wake(uid, now);
        }
    }
}
