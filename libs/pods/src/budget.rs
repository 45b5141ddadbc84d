//! Decides which pods a PodDisruptionBudget covers and whether the budget allows an eviction (upstream's `pods/eviction` storage).

use oarlock_meta::selector::By;
use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::{Pod, PodStatus};
use oarlock_schema::views::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetMut};
use oarlock_schema::{Struct, Value, type_named};

use crate::{conditions, selector, termination};

/// Type of the condition that states whether a budget allows a disruption (`policyv1.DisruptionAllowedCondition`).
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Reason of that condition where the disruption controller could not compute the budget's status (`policyv1.SyncFailedReason`).
const SYNC_FAILED: &str = "SyncFailed";
/// Reason of that condition where no disruption is left (`policyv1.InsufficientPodsReason`).
const INSUFFICIENT_PODS: &str = "InsufficientPods";

/// Whether a budget covers a pod of its namespace with these labels. An absent or invalid selector covers no pod, an empty one covers all. The scheduler's
/// preemption is more lenient: it also disregards budgets with an empty selector, as upstream's does.
#[must_use]
pub fn covers(budget: PodDisruptionBudget<'_>, labels: Map<'_, &str>) -> bool {
    selector::read(budget.spec().selector())
        .is_some_and(|selector| selector.matches(&By::new(|key: &str| labels.get(key))))
}

/// Whether the pod's eviction is a disruption that budgets decide on. Evicting a pod that never ran, has ended or is being deleted is no disruption.
#[must_use]
pub fn is_disruption(pod: Pod<'_>) -> bool {
    let (status, deleted) = (pod.status(), pod.metadata().deletion_timestamp());
    status.phase() != "Pending" && !termination::has_ended(status) && deleted.is_none_or(str::is_empty)
}

/// The decision of a budget about an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed without using up a disruption: the pod is not ready, so the budget does not protect the pod.
    Free,
    /// Allowed; uses up one of the budget's allowed disruptions.
    Costs,
    /// Refused for now: the disruption controller has not observed the budget's specification yet.
    Unobserved,
    /// Refused: the budget allows no disruption.
    Refused,
    /// Refused: the budget's status states a negative number of allowed disruptions.
    Negative,
    /// Refused: more evictions than [`MAX_DISRUPTED_PODS`] wait for the disruption controller to confirm them.
    TooManyUnconfirmed,
}

/// Number of pods in `status.disruptedPods` beyond which no further one is evicted (upstream `MaxDisruptedPodSize`): each eviction copies the map.
pub const MAX_DISRUPTED_PODS: usize = 2000;

/// Returns the decision of a budget that covers the pod about the pod's eviction (KEP-3017).
#[must_use]
pub fn verdict(budget: PodDisruptionBudget<'_>, pod: PodStatus<'_>) -> Verdict {
    let (status, spec) = (budget.status(), budget.spec());
    if !conditions::is_ready(pod) {
        let always = spec.unhealthy_pod_eviction_policy() == Some("AlwaysAllow");
        let enough = status.current_healthy() >= status.desired_healthy() && status.desired_healthy() > 0;
        if always || enough {
            return Verdict::Free;
        }
    }
    if status.observed_generation() < budget.metadata().generation() {
        Verdict::Unobserved
    } else if status.disruptions_allowed() < 0 {
        Verdict::Negative
    } else if status.disrupted_pods().len() > MAX_DISRUPTED_PODS {
        Verdict::TooManyUnconfirmed
    } else if status.disruptions_allowed() == 0 {
        Verdict::Refused
    } else {
        Verdict::Costs
    }
}

/// Returns the reason for which a budget without an allowed disruption refuses an eviction; upstream's texts. Where the disruption controller could not compute
/// the budget's status, the counts of pods are not current, and the reason is the controller's.
#[must_use]
pub fn refusal(budget: PodDisruptionBudget<'_>) -> String {
    let (name, status) = (budget.metadata().name(), budget.status());
    let denied = status
        .conditions()
        .iter()
        .find(|condition| condition.type_() == DISRUPTION_ALLOWED)
        .filter(|condition| condition.status() == "False" && !condition.message().is_empty());
    let refused = format!("The disruption budget {name} does not allow evicting pods currently");
    match denied {
        Some(condition) if condition.reason() == SYNC_FAILED => {
            format!("{refused} because it failed sync: {}", condition.message())
        }
        _ if status.current_healthy() <= status.desired_healthy() => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status.desired_healthy(),
            status.current_healthy()
        ),
        Some(condition) => format!("{refused} ({}): {}", condition.reason(), condition.message()),
        None => refused,
    }
}

/// Takes one disruption from a budget for the eviction of `pod` at the time `now`. A budget whose last disruption is taken states so in a condition.
pub fn spend(budget: &mut PodDisruptionBudgetMut<'_>, pod: &str, now: &str) {
    let mut status = budget.status_mut();
    let (left, observed) = (status.read().disruptions_allowed() - 1, status.read().observed_generation());
    status.set_disruptions_allowed(left);
    status.raw_mut().set_at(&["disruptedPods", pod], now);
    if left > 0 {
        return;
    }
    let Some(ty) = type_named("meta/v1.Condition") else { return };
    let conditions = status.conditions_mut();
    let own = |node: &Value| node.get("type").and_then(Value::as_str) == Some(DISRUPTION_ALLOWED);
    let found = conditions.iter().position(own).unwrap_or_else(|| {
        conditions.push(Value::Struct(Struct::zero(ty)));
        conditions.len() - 1
    });
    let Some(condition) = conditions.get_mut(found).and_then(Value::as_struct_mut) else { return };
    if condition.get("status").and_then(Value::as_str) != Some("False") {
        condition.set_name("lastTransitionTime", now);
    }
    for (field, value) in
        [("type", DISRUPTION_ALLOWED), ("status", "False"), ("reason", INSUFFICIENT_PODS), ("message", "")]
    {
        condition.set_name(field, value);
    }
    condition.set_name("observedGeneration", observed);
}
