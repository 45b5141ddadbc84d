//! Decides whether a pod has ended.

use oarlock_schema::views::core_v1::PodStatus;

/// Whether all containers have ended for good, so that the pod uses no resources and never runs again (upstream `IsPodTerminal`).
#[must_use]
pub fn has_ended(status: PodStatus<'_>) -> bool {
    matches!(status.phase(), "Succeeded" | "Failed")
}
