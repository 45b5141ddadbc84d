//! Plans the pods that a DaemonSet creates and deletes (upstream `podsShouldBeOnNode`, `manage`).
//!
//! The plan brings one pod to each node that is to run one. Only if nothing is to be done for that, the plan replaces pods of earlier templates (`roll.rs`).

use std::time::Duration;

use oarlock_seeded_bug::seeded_bug;

use super::actions::{New, Plan, Why};
use super::placement::Placement;
use super::pods::Pod;
use super::snapshot::Snapshot;
use super::{backoff, roll};
use crate::project::{DaemonUpdate, Phase, next_available};

/// The most pods that one reconcile creates, and the most that it deletes (upstream `BurstReplicas`).
const BURST: usize = 250;

/// Plans for a DaemonSet that is not being deleted.
pub(super) fn plan<'a>(snapshot: &Snapshot<'a>) -> Plan<'a> {
    let mut plan = Plan::default();
    for (&node, &placement) in &snapshot.nodes {
        match placement {
            Placement::Excluded => plan.remove(staying(snapshot.on(node)), Why::Surplus),
            Placement::Runs | Placement::Stays => keep(snapshot, node, placement, &mut plan),
        }
    }
    // The scheduler never binds pods that are pinned to a node that does not exist. Bound ones are deleted by the pod garbage collector.
    for (_, pods) in snapshot.pods.iter().filter(|(node, _)| !snapshot.nodes.contains_key(*node)) {
        plan.remove(staying(pods).filter(|pod| pod.value.node.is_empty()), Why::Surplus);
    }
    if plan.create.is_empty()
        && plan.delete.is_empty()
        && let DaemonUpdate::Rolling { unavailable, surge } = &snapshot.set.value.update
    {
        roll::roll(snapshot, (unavailable, surge), &mut plan);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    let pods = snapshot.pods.values().flatten().map(|pod| &***pod);
    if let Some(wait) = next_available(pods, snapshot.set.value.min_ready, snapshot.now) {
        plan.wait(wait);
    }
    plan
}

/// Returns the pods that are not being deleted.
fn staying<'a>(pods: &[&'a Pod]) -> impl Iterator<Item = &'a Pod> {
    pods.iter().copied().filter(|pod| !pod.meta.deleting())
}

/// The pods on a node that may have a pod.
struct OnNode<'a> {
    /// Pods that have not ended and are not being deleted.
    live: Vec<&'a Pod>,
    /// Whether a pod is being deleted.
    has_leaving: bool,
    /// Failed pods that may be replaced now.
    failed: Vec<&'a Pod>,
    /// The time until another failed pod may be replaced.
    pause: Option<Duration>,
    /// Pods that have succeeded.
    succeeded: Vec<&'a Pod>,
}

impl<'a> OnNode<'a> {
    fn of(snapshot: &Snapshot<'_>, pods: &[&'a Pod]) -> Self {
        let mut this =
            Self { live: Vec::new(), has_leaving: false, failed: Vec::new(), pause: None, succeeded: Vec::new() };
        for pod in pods.iter().copied() {
            // The failures of an earlier template say nothing about this one.
            let pause = || backoff::pause(pod, snapshot.now).filter(|_| snapshot.is_updated(pod));
            match pod.value.phase {
                _ if pod.meta.deleting() => this.has_leaving = true,
                Phase::Succeeded => this.succeeded.push(pod),
                Phase::Failed => match pause() {
                    Some(pause) => this.pause = this.pause.into_iter().chain([pause]).min(),
                    None => this.failed.push(pod),
                },
                Phase::Pending | Phase::Unknown | Phase::Running => this.live.push(pod),
            }
        }
        this
    }

    /// The number of failures before the successor of the failed pods.
    fn former_failures(&self, snapshot: &Snapshot<'_>) -> i64 {
        let count = |pod: &&Pod| {
            if snapshot.is_updated(pod) { backoff::failures_before_successor(pod, snapshot.now) } else { 1 }
        };
        self.failed.iter().map(count).max().unwrap_or(0)
    }
}

/// Plans for a node that may have a pod.
fn keep<'a>(snapshot: &Snapshot<'a>, node: &'a str, placement: Placement, plan: &mut Plan<'a>) {
    let on_node = OnNode::of(snapshot, snapshot.on(node));
    if let Some(pause) = on_node.pause {
        plan.wait(pause);
    }
    plan.remove(on_node.succeeded.iter().copied(), Why::Succeeded);
    let surges = snapshot.set.value.surges();
    if surges {
        plan.remove(surplus_pair(snapshot, &on_node.live), Why::Surplus);
    } else if !seeded_bug!("daemon_surplus_stays") {
        plan.remove(on_node.live.iter().skip(1).copied(), Why::Surplus);
    }
    let is_wanted = placement == Placement::Runs;
    let lacks_pod = if surges {
        // A new pod that failed beside the old one is replaced here, so that its failures count.
        let has_updated = on_node.live.iter().any(|pod| snapshot.is_updated(pod));
        let is_retried = !has_updated && on_node.failed.iter().any(|pod| snapshot.is_updated(pod));
        on_node.live.is_empty() || is_retried
    } else {
        on_node.live.is_empty()
    };
    if !is_wanted || !lacks_pod {
        plan.remove(on_node.failed, Why::Failed);
    } else if on_node.pause.is_none() && (surges || !on_node.has_leaving) {
        let failures = if seeded_bug!("daemon_backoff_forgotten") { 0 } else { on_node.former_failures(snapshot) };
        plan.create.push(New { node, former_failures: failures, replaces: on_node.failed });
    }
}

/// Returns the pods that a node with a surge has too many. Beside each other stay the first pod of the set's template while it is not available, and the first
/// earlier one while it is ready.
fn surplus_pair<'a>(snapshot: &Snapshot<'_>, live: &[&'a Pod]) -> Vec<&'a Pod> {
    let (new, old): (Vec<&'a Pod>, Vec<&'a Pod>) = live.iter().copied().partition(|pod| snapshot.is_updated(pod));
    let mut surplus: Vec<&'a Pod> = new.iter().chain(&old).copied().collect();
    let first = |pods: &[&'a Pod]| pods.first().copied();
    let is_over = match (first(&new), first(&old)) {
        (Some(new), Some(old)) => !old.value.ready || snapshot.is_available(new),
        _ => false,
    };
    let kept_old = if is_over { None } else { first(&old) };
    surplus.retain(|pod| ![first(&new), kept_old].into_iter().flatten().any(|kept| Pod::ptr_eq(kept, pod)));
    surplus
}
