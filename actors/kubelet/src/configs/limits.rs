//! What the cgroup of a whole pod is bounded to (upstream `ResourceConfigForPod`).

use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::{Pod, ResourceRequirements};

use crate::downward::amount;
use crate::resources::{qos_class, quota, shares};

/// Bounds of a pod's cgroup; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodLimits {
    /// Weight: 1024 is one core.
    pub(crate) cpu_shares: i64,
    /// Microseconds of processor time in each period.
    pub(crate) cpu_quota: Option<i64>,
    /// Bytes.
    pub(crate) memory: Option<i64>,
}

/// A pod is bounded where all its containers are, or it says so itself.
pub(crate) fn pod_limits(pod: Pod<'_>) -> PodLimits {
    if qos_class(pod) == "BestEffort" {
        return PodLimits { cpu_shares: shares(0), ..PodLimits::default() };
    }
    let milli = |map: Map<'_, &str>| amount(map, "cpu").milli_value();
    let bytes = |map: Map<'_, &str>| amount(map, "memory").value();
    let (cpu, _) = total(pod, |resources| milli(resources.requests()), milli);
    let (cpu_limit, cpu_bounded) = total(pod, |resources| milli(resources.limits()), milli);
    let (memory, memory_bounded) = total(pod, |resources| bytes(resources.limits()), bytes);
    PodLimits {
        cpu_shares: shares(cpu),
        cpu_quota: (cpu_bounded && cpu_limit > 0).then(|| quota(cpu_limit)),
        memory: (memory_bounded && memory > 0).then_some(memory),
    }
}

/// What the containers amount to at most at any time, with the overhead, and whether each of them says anything.
fn total(
    pod: Pod<'_>,
    read: impl Fn(ResourceRequirements<'_>) -> i64,
    of_overhead: impl Fn(Map<'_, &str>) -> i64,
) -> (i64, bool) {
    let spec = pod.spec();
    let overhead = of_overhead(spec.overhead());
    if let Some(own) = spec.resources().map(&read).filter(|own| *own > 0) {
        return (own + overhead, true);
    }
    // Sidecars run beside the rest; every other init container runs before it.
    let (mut sum, mut peak, mut all) = (0_i64, 0_i64, true);
    for init in spec.init_containers().iter() {
        let own = read(init.resources());
        all &= own > 0;
        peak = peak.max(sum + own);
        if init.restart_policy() == Some("Always") {
            sum += own;
        }
    }
    for main in spec.containers().iter() {
        let own = read(main.resources());
        all &= own > 0;
        sum += own;
    }
    (sum.max(peak) + overhead, all)
}
