//! Builds CRI's configurations of a pod's sandbox and containers from the Pod object. Pure; the rules are those of `pkg/kubelet/kuberuntime`.

mod container;
pub(crate) mod image_name;
mod limits;
mod sandbox;
#[cfg(test)]
mod tests;

use oarlock_schema::views::core_v1::Pod;

pub(crate) use container::{Made, container};
pub(crate) use limits::{PodLimits, pod_limits};
pub(crate) use sandbox::sandbox;

/// Labels on sandboxes and containers by which the kubelet recognizes them in the runtime.
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_UID: &str = "io.kubernetes.pod.uid";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Returns the name of a pod's log directory inside the directory of all pods' logs.
pub(crate) fn log_directory(pod: Pod<'_>) -> String {
    let meta = pod.metadata();
    format!("{}_{}_{}", meta.namespace(), meta.name(), meta.uid())
}
