//! The scheduler's spans in the life of a pod: `relay`, `queue`, `decide`, `propose`, `arbiter` and `bind` (`docs/adr/0007-traces.md`). Nothing is stored for
//! them: the ids follow from the pod's UID and generation.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oarlock_runtime::{Instant, clock};
use oarlock_telemetry::traces::{self, Change, Step, Subject};

use crate::engine::Decision;
use crate::model::PodInfo;
use crate::queue::{Popped, Stamp};

use super::hint_contexts::HintContexts;
use super::names::namespace;
use super::outcome::{Done, Unbound};
use super::proposal_messages::ProposalVerdict;

/// Attribute of the node of a decision, a proposal or a binding.
const NODE: &str = "k8s.node.name";

/// Begins a step in the life of a pod.
fn step(pod: &PodInfo, name: &'static str) -> Step {
    let namespace = namespace(pod);
    let subject =
        Subject { kind: "Pod", namespace: &namespace, name: &pod.name, uid: &pod.uid, generation: pod.generation };
    subject.step(name)
}

/// Records how long a pod was queued, and the decision about the pod, which has just been made. `origin` is the time of stamp zero. Of attempts that fail,
/// only those are recorded whose number is a power of two: thousands of pods that never fit would displace all other lives from memory. `hints` brought
/// the pods that another process has relayed.
pub(super) fn decided<C>(decision: &Decision<C>, origin: Instant, began: Instant, hints: &HintContexts) {
    if !traces::recording() {
        return;
    }
    let popped = decision.popped();
    let failed =
        matches!(decision, Decision::Unschedulable { .. } | Decision::Postponed { .. } | Decision::Skipped { .. });
    if !is_recorded(failed, popped.attempt) {
        return;
    }
    let began = clock::wall_at(began);
    traces::record(|| queued(popped, origin, began, hints));
    traces::record(|| {
        let step = step(&popped.pod, "decide").began(began).ended(clock::wall().into());
        let step = step.attribute("oarlock.scheduler.attempt", i64::from(popped.attempt));
        match decision {
            Decision::Bind { node, .. } | Decision::Propose { node, .. } => step.text(NODE, node),
            Decision::Preempt { node, .. } | Decision::ProposePreemption { node, .. } => {
                step.text(NODE, node).attribute("oarlock.scheduler.preempts", true)
            }
            Decision::Unschedulable { .. } => step.failed("unschedulable"),
            Decision::Postponed { .. } => step.failed("refused by the arbiter or not bindable"),
            Decision::Skipped { .. } => step.failed("deleted or placed already"),
        }
    });
}

/// Whether an attempt is recorded.
const fn is_recorded(failed: bool, attempt: u32) -> bool {
    !failed || attempt.is_power_of_two()
}

fn queued(popped: &Popped, origin: Instant, taken: SystemTime, hints: &HintContexts) -> Step {
    let Stamp(nanos) = popped.queued;
    let queued = clock::wall_at(origin + Duration::from_nanos(nanos));
    let step = step(&popped.pod, "queue")
        .began(queued)
        .ended(taken)
        .attribute("oarlock.scheduler.attempt", i64::from(popped.attempt));
    // Later attempts are begun by other changes of the cluster.
    let hint = if popped.attempt == 1 { hints.of(popped.pod.version) } else { None };
    match hint {
        Some(hint) => step.linked("hint", &hint),
        None => step,
    }
}

/// Returns the span of a message that relays new pods to the processes that find nodes for them; `None` without such pods, or if no span is recorded. The
/// span is in the life of one of the pods, if possible of one that is sampled, and is linked with the lives of the others.
pub(super) fn relay(pods: &[&Arc<PodInfo>], began: Option<Instant>) -> Option<Step> {
    let began = clock::wall_at(began?);
    let root = |pod: &PodInfo| Change::new(&pod.uid, pod.generation).context();
    let first = pods.iter().find(|pod| root(pod).is_sampled()).or(pods.first())?;
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let span = step(first, "relay").began(began).attribute("oarlock.scheduler.pods", count);
    Some(pods.iter().fold(span, |span, pod| span.caused_by(&root(pod))))
}

/// Records the span of a message that was sent or could not be sent.
pub(super) fn relayed(span: Step, sent: bool) {
    let span = span.ended(clock::wall().into());
    traces::record(|| if sent { span } else { span.failed("not sent") });
}

/// Returns the time if spans are recorded, as the begin of a span.
pub(super) fn begin() -> Option<Instant> {
    traces::recording().then(clock::now)
}

/// Records a proposal with its verdict.
pub(super) fn proposed(popped: &Popped, node: &Arc<str>, began: Option<Instant>, verdict: &ProposalVerdict) {
    if let Some(began) = began {
        traces::record(|| judged(step(&popped.pod, "propose"), node, began, verdict));
    }
}

/// Records a proposal without a verdict.
pub(super) fn unanswered(popped: &Popped, node: &Arc<str>, began: Option<Instant>) {
    if let Some(began) = began {
        traces::record(|| ended(step(&popped.pod, "propose"), node, began).failed("no verdict"));
    }
}

/// Records the arbiter's verdict on a proposal of another process, from the receipt of the proposal on. `refused` is the constraint that speaks against
/// the proposal.
pub(super) fn arbitrated(pod: &PodInfo, node: &str, received: Instant, refused: Option<&str>) {
    traces::record(|| {
        let step = ended(step(pod, "arbiter"), node, received);
        match refused {
            Some(constraint) => step.failed(constraint),
            None => step,
        }
    });
}

/// Records a binding that was written or has failed.
pub(super) fn bound(pod: &PodInfo, node: &str, began: Option<Instant>, result: &Result<Done, Unbound>) {
    let Some(began) = began else { return };
    traces::record(|| {
        let step = ended(step(pod, "bind"), node, began);
        match result {
            Ok(_) => step,
            Err(Unbound { stale: Some(_), .. }) => step.failed("another process is the arbiter"),
            Err(_) => step.failed("not written"),
        }
    });
}

/// Records a binding whose answer is not waited for, because the incarnation is stopping; the binding may still take effect.
pub(super) fn interrupted(pod: &PodInfo, node: &str, began: Option<Instant>) {
    if let Some(began) = began {
        traces::record(|| ended(step(pod, "bind"), node, began).failed("interrupted: the outcome is unknown"));
    }
}

fn judged(step: Step, node: &str, began: Instant, verdict: &ProposalVerdict) -> Step {
    let step = ended(step, node, began);
    match verdict {
        ProposalVerdict::Bound | ProposalVerdict::Nominated { .. } => step,
        ProposalVerdict::Refused { constraint, .. } => step.failed(constraint),
        ProposalVerdict::Failed { .. } => step.failed("accepted but not written"),
        ProposalVerdict::Stale => step.failed("another process is the arbiter"),
    }
}

fn ended(step: Step, node: &str, began: Instant) -> Step {
    step.began(clock::wall_at(began)).ended(clock::wall().into()).text(NODE, node)
}

#[cfg(test)]
mod tests {
    use super::is_recorded;

    #[test]
    fn of_failed_attempts_those_at_powers_of_two_are_recorded_and_of_the_others_all() {
        let recorded = |failed| (1..=20).filter(move |attempt| is_recorded(failed, *attempt));
        assert_eq!(recorded(true).collect::<Vec<_>>(), [1, 2, 4, 8, 16]);
        assert_eq!(recorded(false).count(), 20);
    }
}
