//! The quality of service class of pods (upstream `ComputePodQOS`, `GetPodQOS`).

use oarlock_meta::Quantity;
use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::{Pod, PodSpec, ResourceRequirements};

/// The class that decides which pods lose resources and are evicted first on a node under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Every container has cpu and memory limits, with equal requests.
    Guaranteed,
    /// Neither guaranteed nor best effort.
    Burstable,
    /// No container has a cpu or memory request or limit.
    BestEffort,
}

impl QosClass {
    /// Returns the class as `status.qosClass` names the class.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Returns the class that the API server gave the pod at creation; for a pod without one, such as a static pod, the class computed from its resources.
#[must_use]
pub fn of(pod: Pod<'_>) -> QosClass {
    let given = pod.status().qos_class();
    let known = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
    known.into_iter().find(|class| class.as_str() == given).unwrap_or_else(|| computed(pod.spec()))
}

/// Computes the class from a pod's resources. Defaulting must have set requests from limits before.
#[must_use]
pub fn computed(spec: PodSpec<'_>) -> QosClass {
    let uses_any = |resources: ResourceRequirements<'_>| {
        let [limits, requests] = [resources.limits(), resources.requests()];
        COMPUTE.iter().any(|name| amount(limits, name).is_some() || amount(requests, name).is_some())
    };
    if !counted(spec).any(uses_any) {
        QosClass::BestEffort
    } else if COMPUTE.iter().all(|name| is_guaranteed(spec, name)) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// The resources that decide about the class.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Returns the resources that count. Pod-level ones, where present, replace those of the containers (KEP-2837).
fn counted(spec: PodSpec<'_>) -> impl Iterator<Item = ResourceRequirements<'_>> {
    let own = spec.resources();
    let containers = spec.containers().iter().chain(spec.init_containers().iter());
    own.into_iter().chain(containers.filter(move |_| own.is_none()).map(|container| container.resources()))
}

/// Whether every container limits a resource, and the requests add up to the limits.
fn is_guaranteed(spec: PodSpec<'_>, name: &str) -> bool {
    let (mut requests, mut limits) = (Quantity::ZERO, Quantity::ZERO);
    for resources in counted(spec) {
        let Some(limit) = amount(resources.limits(), name) else { return false };
        limits += &limit;
        if let Some(request) = amount(resources.requests(), name) {
            requests += &request;
        }
    }
    requests == limits
}

/// Returns the amount of a resource; `None` for an amount that is not above zero, which counts as absent.
fn amount(amounts: Map<'_, &str>, name: &str) -> Option<Quantity> {
    Quantity::parse(amounts.get(name)?).ok().filter(|amount| amount.signum() > 0)
}
