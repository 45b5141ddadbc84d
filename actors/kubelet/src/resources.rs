//! Converts a container's requests and limits to kernel settings (`kuberuntime_container_linux.go`, `cm/helpers_linux.go`, `qos/policy.go`).

use oarlock_meta::Quantity;
use oarlock_pods::amounts::Quantities;
use oarlock_pods::sidecar::is_sidecar;
use oarlock_pods::{QosClass, RequirementKind, Sum, qos};
use oarlock_schema::views::core_v1::{Container, Pod, ResourceRequirements};

use crate::downward::amount;

/// Kernel settings of a container's resources; the fields are those of CRI's `LinuxContainerResources`, 0 leaves a setting out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinuxResources {
    /// CPU weight: 1024 is one core.
    pub(crate) cpu_shares: i64,
    /// CPU quota in microseconds per period.
    pub(crate) cpu_quota: i64,
    /// Length of a quota period in microseconds.
    pub(crate) cpu_period: i64,
    /// Memory limit in bytes.
    pub(crate) memory_limit: i64,
    pub(crate) oom_score_adj: i64,
    /// Limits of huge pages: page size as the kernel writes it (`2MB`), and bytes.
    pub(crate) hugepages: Vec<(String, u64)>,
}

/// Range of CPU weights that the kernel accepts.
const SHARES: std::ops::RangeInclusive<i64> = 2..=262_144;
/// Length of a quota period in microseconds.
pub(crate) const PERIOD: i64 = 100_000;
/// Smallest CPU quota in microseconds.
const LEAST_QUOTA: i64 = 1000;
/// OOM score adjustment of the containers to kill last.
const GUARANTEED: i64 = -997;
/// OOM score adjustment of the containers to kill first.
const BEST_EFFORT: i64 = 1000;
/// Smallest priority of a pod critical to its node (`system-node-critical`).
const NODE_CRITICAL: i64 = 2_000_001_000;

/// Returns the settings of a container on a node with `memory` bytes, whose kernel has huge pages of the sizes `pages` in bytes.
pub(crate) fn linux_resources(pod: Pod<'_>, container: Container<'_>, memory: i64, pages: &[u64]) -> LinuxResources {
    let own = container.resources();
    let whole = pod.spec().resources();
    let limit = |name: &str| {
        let limit = amount(own.limits(), name);
        if limit.is_zero() { whole.map_or(Quantity::ZERO, |whole| amount(whole.limits(), name)) } else { limit }
    };
    let cpu_limit = limit("cpu").milli_value();
    let cpu = own.requests().get("cpu").map_or(cpu_limit, |_| amount(own.requests(), "cpu").milli_value());
    LinuxResources {
        cpu_shares: shares(cpu),
        cpu_quota: quota(cpu_limit),
        cpu_period: PERIOD,
        memory_limit: limit("memory").value(),
        oom_score_adj: oom_score_adj(pod, container, memory),
        hugepages: hugepages(whole, own, pages),
    }
}

/// Converts thousandths of a core to a CPU weight (upstream `MilliCPUToShares`).
pub(crate) fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(*SHARES.start(), *SHARES.end())
}

/// Converts thousandths of a core to a CPU quota; 0 is no quota (upstream `MilliCPUToQuota`).
pub(crate) fn quota(milli: i64) -> i64 {
    if milli == 0 { 0 } else { (milli.saturating_mul(PERIOD) / 1000).max(LEAST_QUOTA) }
}

/// Returns the OOM score adjustment of a container: the higher, the earlier it is killed when memory runs out (upstream `GetContainerOOMScoreAdjust`).
fn oom_score_adj(pod: Pod<'_>, container: Container<'_>, memory: i64) -> i64 {
    if pod.spec().priority().is_some_and(|priority| priority >= NODE_CRITICAL) {
        return GUARANTEED;
    }
    match qos::of(pod) {
        QosClass::Guaranteed => return GUARANTEED,
        QosClass::BestEffort => return BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request) / memory.max(1);
    let spec = pod.spec();
    // The part of the pod-level request that no container requests is divided among the containers.
    let whole = spec.resources().map_or(0, |whole| amount(whole.requests(), "memory").value());
    let count = i64::try_from(spec.containers().len() + spec.init_containers().len()).unwrap_or(1).max(1);
    let of_containers = || Sum::new(spec, RequirementKind::Requests).of_containers(&Quantities);
    let aggregate = || of_containers().get("memory").map_or(0, Quantity::value);
    let rest = if whole == 0 { 0 } else { (whole - aggregate()) / count };
    let mut adjusted = score(requested(container) + rest);
    if is_sidecar(container) && spec.init_containers().iter().any(|init| init.name() == container.name()) {
        let least = spec.containers().iter().map(requested).min().unwrap_or(0);
        adjusted = adjusted.min(score(least + rest));
    }
    adjusted.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

fn requested(container: Container<'_>) -> i64 {
    amount(container.resources().requests(), "memory").value()
}

/// Returns a limit for every huge page size of the kernel: the container's, else the pod's, else zero.
fn hugepages(
    whole: Option<ResourceRequirements<'_>>,
    own: ResourceRequirements<'_>,
    pages: &[u64],
) -> Vec<(String, u64)> {
    let limit = |page: u64, list: ResourceRequirements<'_>| {
        let of = |name: &str| Quantity::parse(name.strip_prefix("hugepages-")?).ok().map(|size| size.value());
        let named = list.limits().iter().find(|(name, _)| of(name) == i64::try_from(page).ok());
        named.map(|(name, _)| u64::try_from(amount(list.limits(), name).value()).unwrap_or(0))
    };
    let one = |page: &u64| (page_name(*page), limit(*page, own).or(whole.and_then(|w| limit(*page, w))).unwrap_or(0));
    pages.iter().map(one).collect()
}

/// Returns a page size in the notation of the kernel's cgroup files.
fn page_name(bytes: u64) -> String {
    let mut size = bytes;
    for unit in ["B", "KB", "MB"] {
        if size < 1024 {
            return format!("{size}{unit}");
        }
        size /= 1024;
    }
    format!("{size}GB")
}

#[cfg(test)]
mod tests;
