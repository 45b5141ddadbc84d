//! Sidecars: init containers that run as long as the pod (KEP-753).

use oarlock_schema::views::core_v1::{Container, PodSpec};

/// Whether a container of `initContainers` is a sidecar (upstream `IsRestartableInitContainer`).
#[must_use]
pub fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

/// Returns the sidecars of a pod, in order.
pub fn sidecars(spec: PodSpec<'_>) -> impl Iterator<Item = Container<'_>> {
    spec.init_containers().iter().filter(|container| is_sidecar(*container))
}

/// Whether the pod has a sidecar of this name.
#[must_use]
pub fn has_sidecar(spec: PodSpec<'_>, name: &str) -> bool {
    sidecars(spec).any(|sidecar| sidecar.name() == name)
}

/// Returns the containers that run as long as the pod: its containers, then its sidecars. Only the ports of these can be reached.
pub fn long_running(spec: PodSpec<'_>) -> impl Iterator<Item = Container<'_>> {
    spec.containers().iter().chain(sidecars(spec))
}
