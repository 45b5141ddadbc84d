//! Pod-level resources (KEP-2837).

use oarlock_schema::views::core_v1::PodSpec;

/// Whether pod-level requests and limits support this resource (upstream `IsSupportedPodLevelResource`).
#[must_use]
pub fn supports(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Whether the pod has a supported pod-level request or limit (upstream `IsPodLevelResourcesSet`).
#[must_use]
pub fn is_set(spec: PodSpec<'_>) -> bool {
    spec.resources().is_some_and(|own| own.requests().iter().chain(own.limits().iter()).any(|(name, _)| supports(name)))
}
