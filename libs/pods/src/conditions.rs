//! Looks up conditions in a pod's status. Of several with one type the first counts (upstream `GetPodConditionFromList`).

use oarlock_schema::views::core_v1::{PodCondition, PodStatus};

/// Returns the condition of a type.
#[must_use]
pub fn find<'a>(status: PodStatus<'a>, kind: &str) -> Option<PodCondition<'a>> {
    status.conditions().iter().find(|condition| condition.type_() == kind)
}

/// Whether the condition of a type is present and `True`.
#[must_use]
pub fn is_true(status: PodStatus<'_>, kind: &str) -> bool {
    find(status, kind).is_some_and(|condition| condition.status() == "True")
}

/// Returns the condition `Ready`.
#[must_use]
pub fn ready(status: PodStatus<'_>) -> Option<PodCondition<'_>> {
    find(status, "Ready")
}

/// Whether the pod is ready (upstream `IsPodReady`).
#[must_use]
pub fn is_ready(status: PodStatus<'_>) -> bool {
    is_true(status, "Ready")
}
