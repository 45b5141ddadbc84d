//! Computes the limits of a whole pod's cgroup (upstream `ResourceConfigForPod`).

use oarlock_meta::Quantity;
use oarlock_pods::amounts::Quantities;
use oarlock_pods::sidecar::is_sidecar;
use oarlock_pods::{Amounts, QosClass, RequirementKind, Sum, qos};
use oarlock_schema::views::core_v1::{Pod, PodSpec, ResourceRequirements};

use crate::downward::amount;
use crate::resources::{quota, shares};

/// Limits of a pod's cgroup; `None` where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodLimits {
    /// CPU weight: 1024 is one core.
    pub(crate) cpu_shares: i64,
    /// CPU quota in microseconds per period.
    pub(crate) cpu_quota: Option<i64>,
    /// Memory limit in bytes.
    pub(crate) memory: Option<i64>,
}

/// Returns the limits of a pod, for each resource that is limited at pod level or in all containers.
pub(crate) fn pod_limits(pod: Pod<'_>) -> PodLimits {
    if qos::of(pod) == QosClass::BestEffort {
        return PodLimits { cpu_shares: shares(0), ..PodLimits::default() };
    }
    let sum = |side| Sum::new(pod.spec(), side).total(&Quantities);
    let (requests, limits) = (sum(RequirementKind::Requests), sum(RequirementKind::Limits));
    let milli = |amounts: &Amounts| amounts.get("cpu").map_or(0, Quantity::milli_value);
    let bound = |resource: &str, amount: i64| (amount > 0 && is_bounded(pod.spec(), resource)).then_some(amount);
    PodLimits {
        cpu_shares: shares(milli(&requests)),
        cpu_quota: bound("cpu", milli(&limits)).map(quota),
        memory: bound("memory", limits.get("memory").map_or(0, Quantity::value)),
    }
}

/// Whether a resource is limited at pod level, or at every moment in every container: an init container counts as limited where a sidecar started
/// before it is (the `ContainerFn` of upstream's `ResourceConfigForPod`).
fn is_bounded(spec: PodSpec<'_>, resource: &str) -> bool {
    let limited = |resources: ResourceRequirements<'_>| !amount(resources.limits(), resource).is_zero();
    let mut beside = false;
    let init = spec.init_containers().iter().all(|container| {
        let own = limited(container.resources());
        let now = own || beside;
        beside |= own && is_sidecar(container);
        now
    });
    spec.resources().is_some_and(limited)
        || (init && spec.containers().iter().all(|container| limited(container.resources())))
}
