//! Decides which pods a PodDisruptionBudget covers and whether the budget allows an eviction (upstream's `pods/eviction` storage).

use oarlock_meta::selector::By;
use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::{Pod, PodStatus};
use oarlock_schema::views::policy_v1::PodDisruptionBudget;

use crate::{conditions, selector, termination};

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
    /// Forbidden: the number of allowed disruptions is negative, which no disruption controller writes.
    Negative,
    /// Forbidden for now: more than [`MAX_DISRUPTED_PODS`] evictions wait for the disruption controller to confirm them.
    Unconfirmed,
    /// Refused: the budget allows no disruption.
    Refused,
}

/// The largest number of evicted pods in a budget's `status.disruptedPods` with which another pod is evicted (upstream: `MaxDisruptedPodSize`).
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
        Verdict::Unconfirmed
    } else if status.disruptions_allowed() == 0 {
        Verdict::Refused
    } else {
        Verdict::Costs
    }
}
