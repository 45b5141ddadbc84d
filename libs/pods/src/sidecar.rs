//! Sidecars: init containers that run as long as the pod does (KEP-753).

use oarlock_schema::views::core_v1::{Container, PodSpec};

/// Whether a container of `initContainers` is a sidecar (upstream `IsRestartableInitContainer`).
#[must_use]
pub fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

/// The sidecars of a pod, in their order.
pub fn sidecars(spec: PodSpec<'_>) -> impl Iterator<Item = Container<'_>> {
    spec.init_containers().iter().filter(|container| is_sidecar(*container))
}

/// Whether the pod has a sidecar of this name.
#[must_use]
pub fn has_sidecar(spec: PodSpec<'_>, name: &str) -> bool {
    sidecars(spec).any(|sidecar| sidecar.name() == name)
}

/// What runs as long as the pod does: its containers, then its sidecars. Ports of these, and of no others, can be reached.
pub fn long_running(spec: PodSpec<'_>) -> impl Iterator<Item = Container<'_>> {
    spec.containers().iter().chain(sidecars(spec))
}
