//! One process's scheduler without I/O: the cluster, the queue, a shard and the arbiter.
//!
//! The caller passes events to the `on_*` functions and takes decisions from [`Engine::next`]. The engine has no clock, no
//! randomness and no I/O of its own, so tests are deterministic.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arbiter::{Arbiter, Constraint, Refusal};
use crate::class::Choose;
use crate::cluster::{Claims, Cluster, PodChange};
use crate::column::NodeIx;
use crate::event::Event;
use crate::framework::{Call, Reason};
use crate::intern::{Interner, Sym};
use crate::model::{NodeInfo, PodInfo, Uid};
use crate::plugin::Plugins;
use crate::queue::{Popped, Queue, Stamp};
use crate::shard::{Proposal, Shard, ShardResult};
use crate::texts;

mod post_filters;
mod preemption;

pub(crate) use preemption::Unfit;

/// Bound of the arbiter's refusals of one pod within one decision.
const MAX_REFUSALS: usize = 8;

/// The decision about one pod, for the caller to carry out. `C` is the caller's claim, as in [`Authority`].
#[derive(Clone, Debug)]
pub(crate) enum Decision<C> {
    /// Bind the pod, which counts as placed already. The caller reports the outcome by [`Engine::bound`] or [`Engine::unbound`].
    Bind {
        /// The claim under which the writes are made.
        claim: C,
        /// The pod.
        popped: Popped,
        /// The node's name.
        node: Arc<str>,
        /// Writes to perform in order; the last one is the binding.
        calls: Vec<Call>,
    },
    /// Propose the pod's node to the arbiter of another process. The pod counts as placed in this engine until [`Engine::bound`] or [`Engine::withdraw`].
    Propose {
        /// The pod.
        popped: Popped,
        /// The node's name.
        node: Arc<str>,
    },
    /// Evict pods from a node for the pod, which counts as nominated already. The caller reports the outcome by [`Engine::preempted`] or [`Engine::withdraw`].
    Preempt {
        /// The claim under which the writes are made.
        claim: C,
        /// The pod.
        popped: Popped,
        /// The node's name.
        node: Arc<str>,
        /// Why the pod fits on no node now.
        unfit: Unfit,
        /// Writes to perform in order.
        calls: Vec<Call>,
    },
    /// Propose a preemption to the arbiter of another process. The pod counts as nominated in this engine until [`Engine::preempted`] or [`Engine::withdraw`].
    ProposePreemption {
        /// The pod.
        popped: Popped,
        /// The node's name.
        node: Arc<str>,
        /// Why the pod fits on no node now.
        unfit: Unfit,
        /// The pods to evict.
        victims: Vec<Uid>,
    },
    /// Report why the pod fits on no node. The pod is back in the queue already.
    Unschedulable {
        /// The pod.
        popped: Popped,
        /// The text for the Event and the condition.
        message: String,
        /// Whether `status.nominatedNodeName` is to be cleared.
        denominated: bool,
    },
    /// Report that the pod was refused repeatedly, or that no plugin binds the pod. The pod is in back-off.
    Postponed {
        /// The pod.
        popped: Popped,
        /// The text for the Event and the condition.
        message: String,
    },
    /// Skip the pod, which is being deleted or is placed already. The pod has left the queue.
    Skipped {
        /// The pod.
        popped: Popped,
    },
}

impl<C> Decision<C> {
    /// Returns the pod that the decision is about.
    pub(crate) fn popped(&self) -> &Popped {
        match self {
            Self::Bind { popped, .. }
            | Self::Propose { popped, .. }
            | Self::Preempt { popped, .. }
            | Self::ProposePreemption { popped, .. }
            | Self::Unschedulable { popped, .. }
            | Self::Postponed { popped, .. }
            | Self::Skipped { popped } => popped,
        }
    }
}

/// The arbiter that confirms this engine's choices. Only a caller that shows its claim to the arbiter's unit, a `C`, is given decisions to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority<C> {
    /// The arbiter of this engine, whose decisions are written under this claim.
    Local(C),
    /// The arbiter of another process: [`Engine::next`] returns proposals.
    Remote,
}

/// Why another shard's proposal is not carried out.
#[derive(Clone, Debug)]
pub(crate) enum ProposalError {
    /// The arbiter refused the proposal.
    Refused(Refusal),
    /// The arbiter accepted the proposal, but a Reserve, Permit or Bind plugin failed.
    Failed(String),
}

const UNBINDABLE: &str = "no plugin binds the pod";

/// The state of one process's scheduler.
pub(crate) struct Engine {
    plugins: Plugins,
    /// The known state of the cluster.
    pub(crate) cluster: Cluster,
    /// The waiting pods.
    pub(crate) queue: Queue,
    shard: Shard,
    arbiter: Arbiter,
    /// Number of pods for which preemption was tried.
    pub(crate) attempts: u64,
    /// Number of pods evicted by preemptions that the arbiter allowed.
    pub(crate) victims: u64,
    /// The last refusal, for the published status.
    pub(crate) last_refusal: Option<Refusal>,
}

impl Engine {
    /// An engine of an empty cluster that runs these plugins.
    pub(crate) fn new(plugins: Plugins, cluster: Cluster) -> Self {
        Self {
            plugins,
            cluster,
            queue: Queue::new(plugins),
            shard: Shard::new(plugins),
            arbiter: Arbiter::default(),
            attempts: 0,
            victims: 0,
            last_refusal: None,
        }
    }

    /// An engine with the process's interner, which the projections of API objects use too.
    pub(crate) fn for_process(plugins: Plugins) -> Self {
        Self::new(plugins, Cluster::with_names(Interner::process()))
    }

    /// Returns the uid of every known pod, placed, waiting or nominated.
    pub(crate) fn known_pods(&self) -> Vec<Uid> {
        let placed = self.cluster.all_pods().map(|pod| &pod.info.uid);
        placed.chain(self.queue.uids()).chain(self.cluster.nominations.uids()).cloned().collect()
    }

    /// Returns the numbers of proposals that the arbiter accepted, and refused by constraint.
    pub(crate) fn proposal_counts(&self) -> (u64, &BTreeMap<&'static str, u64>) {
        (self.arbiter.accepted, &self.arbiter.refused)
    }

    /// Returns the number of preemptions that the arbiter allowed.
    pub(crate) fn preemptions(&self) -> u64 {
        self.arbiter.allowed
    }

    /// Requeues waiting pods whose back-off or longest wait has ended.
    pub(crate) fn flush(&mut self, now: Stamp) {
        self.queue.flush(&self.cluster, now);
    }

    // ---- events ------------------------------------------------------------------------------------------

    /// Applies a new or changed node.
    pub(crate) fn on_node(&mut self, info: NodeInfo, now: Stamp) {
        let name = info.name;
        let old = self.cluster.set_node(info);
        let Some(new) = self.cluster.nodes.find(name).and_then(|node| self.cluster.nodes.info(node)).cloned() else {
            return;
        };
        match old {
            None => self.queue.on_event(&self.cluster, &Event::NodeAdded(&new), now),
            Some(old) if old != new => {
                self.queue.on_event(&self.cluster, &Event::NodeChanged { old: &old, new: &new }, now);
            }
            Some(_) => {}
        }
    }

    /// Applies the deletion of a node.
    pub(crate) fn on_node_gone(&mut self, name: Sym, now: Stamp) {
        if let Some(old) = self.cluster.remove_node(name) {
            self.queue.on_event(&self.cluster, &Event::NodeGone(&old), now);
        }
    }

    /// Applies a new, changed or deleted claim of volumes or devices.
    pub(crate) fn on_claim(&mut self, (namespace, name): (Sym, Sym), change: impl FnOnce(&mut Claims), now: Stamp) {
        change(&mut self.cluster.claims);
        self.queue.on_event(&self.cluster, &Event::Claim { namespace, name }, now);
    }

    /// Applies a change of a volume, a storage class or a device class.
    pub(crate) fn on_claim_source(&mut self, change: impl FnOnce(&mut Claims), now: Stamp) {
        change(&mut self.cluster.claims);
        self.queue.on_event(&self.cluster, &Event::ClaimSource, now);
    }

    /// Applies a new or changed pod. `ours` says whether this engine schedules the pod if it has no node.
    pub(crate) fn on_pod(&mut self, pod: Arc<PodInfo>, ours: bool, now: Stamp) {
        if pod.node.is_some() {
            self.queue.remove(&pod.uid);
            self.cluster.nominations.remove(&pod.uid);
            match self.cluster.set_pod(Arc::clone(&pod)) {
                PodChange::Added | PodChange::Confirmed => {
                    self.queue.on_event(&self.cluster, &Event::PodAssigned(&pod), now);
                }
                PodChange::Updated(old) => {
                    self.queue.on_event(&self.cluster, &Event::PodChanged { old: &old, new: &pod }, now);
                }
                PodChange::Unchanged => {}
            }
            return;
        }
        if let Some(over) = self.cluster.nominations.see(&pod) {
            // Other pods were scheduled as if the nominated pod were on the node.
            self.queue.on_event(&self.cluster, &Event::PodGone(&over), now);
        }
        let assumed = self.cluster.placed(&pod.uid).is_some_and(|placed| placed.assumed);
        if assumed {
            // This process's own binding is in progress. A deletion releases the place at once.
            if pod.terminating {
                self.release(&pod.uid, now);
            }
            if self.queue.contains(&pod.uid) {
                self.queue.update(&self.cluster, pod, now);
            }
        } else if ours {
            self.queue.update(&self.cluster, pod, now);
        }
    }

    /// Applies a pod's deletion, or the end of a pod that uses no resources any more.
    pub(crate) fn on_pod_gone(&mut self, uid: &str, now: Stamp) {
        self.queue.remove(uid);
        let expected = self.cluster.nominations.remove(uid);
        if let Some(old) = self.cluster.remove_pod(uid).or(expected) {
            self.queue.on_event(&self.cluster, &Event::PodGone(&old), now);
        }
    }

    fn release(&mut self, uid: &str, now: Stamp) {
        if let Some(old) = self.cluster.forget(uid) {
            self.queue.on_event(&self.cluster, &Event::PodGone(&old), now);
        }
    }

    // ---- outcomes of bindings ----------------------------------------------------------------------------

    /// Records a written binding. The pod leaves the queue; the API will confirm the binding.
    pub(crate) fn bound(&mut self, pod: &PodInfo) {
        self.queue.remove(&pod.uid);
        for (_, post_bind) in self.plugins.with(|plugin| plugin.post_bind) {
            post_bind(&mut self.cluster, pod);
        }
    }

    /// Records a failed binding: releases the place, and requeues the pod with back-off if this engine queues the pod.
    pub(crate) fn unbound(&mut self, pod: &PodInfo, node: &str, now: Stamp) {
        if let Some(slot) = self.slot(node) {
            self.unreserve(pod, slot);
        }
        self.release(&pod.uid, now);
        self.queue.failed(&pod.uid, now);
    }

    /// Withdraws a proposal or a preemption: releases the place, and lets the API's state decide about the pod's nomination. The pod stays in flight until
    /// [`Queue::again`] or [`Queue::failed`].
    pub(crate) fn withdraw(&mut self, uid: &str, now: Stamp) {
        self.release(uid, now);
        self.cluster.nominations.withdraw(uid);
    }

    fn slot(&mut self, node: &str) -> Option<NodeIx> {
        let name = self.cluster.names.intern(node);
        self.cluster.nodes.find(name)
    }

    // ---- decisions ---------------------------------------------------------------------------------------

    /// Decides about the next waiting pod and returns the decision; `None` if no pod is ready.
    pub(crate) fn next<C: Copy>(
        &mut self,
        authority: Authority<C>,
        now: Stamp,
        choose: &mut Choose<'_>,
    ) -> Option<Decision<C>> {
        let popped = self.queue.pop(now)?;
        let uid = Arc::clone(&popped.pod.uid);
        if popped.pod.terminating || self.cluster.placed(&uid).is_some() {
            self.queue.remove(&uid);
            return Some(Decision::Skipped { popped });
        }
        let mut refusal = None;
        for _ in 0..MAX_REFUSALS {
            match self.shard.propose(&mut self.cluster, &popped.pod, choose) {
                ShardResult::NoNodes => {
                    self.queue.failed(&uid, now);
                    let message = texts::NO_NODES.to_owned();
                    return Some(Decision::Unschedulable { popped, message, denominated: false });
                }
                ShardResult::Unschedulable(diagnosis) => {
                    self.attempts += 1;
                    let found = self.run_post_filters(&popped.pod, &diagnosis, choose);
                    return Some(self.decide_unfit(authority, popped, &diagnosis, found, now));
                }
                ShardResult::Place(proposal) => {
                    let Authority::Local(claim) = authority else {
                        self.cluster.assume(&proposal.pod, proposal.node);
                        let node = self.cluster.names.text(self.cluster.nodes.name(proposal.node));
                        return Some(Decision::Propose { popped, node });
                    };
                    match self.arbiter.decide(&mut self.cluster, &proposal) {
                        Ok(()) => return Some(self.settle(claim, popped, proposal.node, now)),
                        Err(refused) => refusal = Some(refused),
                    }
                }
            }
        }
        let message = refusal.as_ref().map(ToString::to_string).unwrap_or_default();
        self.last_refusal = refusal;
        self.queue.failed(&uid, now);
        Some(Decision::Postponed { popped, message })
    }

    /// Decides about another shard's proposal, from this engine's state of pod and node. An accepted pod counts as placed at once; the caller reports the outcome
    /// of the returned writes by [`Engine::bound`] or [`Engine::unbound`].
    pub(crate) fn judge(&mut self, pod: &Arc<PodInfo>, node: &str, now: Stamp) -> Result<Vec<Call>, ProposalError> {
        let seen = self.cluster.sequence();
        let refuse = |constraint| ProposalError::Refused(Refusal { constraint, seen, proposed: seen });
        if pod.node.is_some() || self.cluster.placed(&pod.uid).is_some() {
            return Err(refuse(Constraint::Unplaced));
        }
        let Some(slot) = self.slot(node) else { return Err(refuse(Constraint::Node)) };
        let proposal = Proposal { pod: Arc::clone(pod), node: slot, seen };
        self.arbiter.decide(&mut self.cluster, &proposal).map_err(ProposalError::Refused)?;
        match self.complete(pod, slot, now) {
            Ok(calls) if calls.is_empty() => Err(ProposalError::Failed(UNBINDABLE.to_owned())),
            Ok(calls) => Ok(calls),
            Err((_, message)) => Err(ProposalError::Failed(message)),
        }
    }

    /// Runs Reserve, Permit, PreBind and Bind for an accepted pod. If a plugin fails, or no plugin binds the pod, the place is released.
    fn complete(&mut self, pod: &Arc<PodInfo>, node: NodeIx, now: Stamp) -> Result<Vec<Call>, (usize, String)> {
        let outcome = self.reserve(pod, node).map(|()| calls(self.plugins, pod));
        if outcome.as_ref().map_or(true, Vec::is_empty) {
            self.unreserve(pod, node);
            self.release(&pod.uid, now);
        }
        outcome.map_err(|(at, reason)| (at, texts::unavailable(1, &format!("1 {}", reason.text(&self.cluster.names)))))
    }

    fn settle<C>(&mut self, claim: C, popped: Popped, node: NodeIx, now: Stamp) -> Decision<C> {
        let uid = Arc::clone(&popped.pod.uid);
        match self.complete(&popped.pod, node, now) {
            Ok(calls) if calls.is_empty() => {
                self.queue.failed(&uid, now);
                Decision::Postponed { popped, message: UNBINDABLE.to_owned() }
            }
            Ok(calls) => {
                let node = self.cluster.names.text(self.cluster.nodes.name(node));
                Decision::Bind { claim, popped, node, calls }
            }
            Err((at, message)) => {
                self.queue.rejected(&uid, 1 << at, now);
                Decision::Unschedulable { popped, message, denominated: false }
            }
        }
    }

    fn reserve(&mut self, pod: &PodInfo, node: NodeIx) -> Result<(), (usize, Reason)> {
        for (at, reserve) in self.plugins.with(|plugin| plugin.reserve) {
            reserve(&mut self.cluster, pod, node).map_err(|reason| (at, reason))?;
        }
        for (at, permit) in self.plugins.with(|plugin| plugin.permit) {
            permit(&self.cluster, pod, node).map_err(|reason| (at, reason))?;
        }
        Ok(())
    }

    fn unreserve(&mut self, pod: &PodInfo, node: NodeIx) {
        for (_, unreserve) in self.plugins.with(|plugin| plugin.unreserve).rev() {
            unreserve(&mut self.cluster, pod, node);
        }
    }
}

/// Returns the writes of PreBind, then the binding of the first plugin that binds; empty if no plugin binds.
fn calls(plugins: Plugins, pod: &PodInfo) -> Vec<Call> {
    let Some(bind) = plugins.iter().find_map(|plugin| plugin.bind.and_then(|bind| bind(pod))) else {
        return Vec::new();
    };
    plugins.iter().filter_map(|plugin| plugin.pre_bind).flat_map(|pre_bind| pre_bind(pod)).chain([bind]).collect()
}
