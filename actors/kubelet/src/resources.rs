//! What a container's requests and limits are to the kernel (`kuberuntime_container_linux.go`, `cm/helpers_linux.go`, `qos/policy.go`).

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{Container, Pod, ResourceRequirements};

use crate::downward::amount;

/// What the runtime is told of a container's resources; the fields are those of CRI's `LinuxContainerResources`, 0 is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinuxResources {
    /// Weight: 1024 is one core.
    pub(crate) cpu_shares: i64,
    /// Microseconds of processor time in each period.
    pub(crate) cpu_quota: i64,
    /// Microseconds.
    pub(crate) cpu_period: i64,
    /// Bytes.
    pub(crate) memory_limit: i64,
    pub(crate) oom_score_adj: i64,
    /// Page size as the kernel writes it (`2MB`), and bytes.
    pub(crate) hugepages: Vec<(String, u64)>,
}

/// Weights that the kernel knows.
const SHARES: std::ops::RangeInclusive<i64> = 2..=262_144;
/// The period in which quotas are counted, in microseconds.
pub(crate) const PERIOD: i64 = 100_000;
/// The least quota, in microseconds.
const LEAST_QUOTA: i64 = 1000;
/// The adjustment of what is to be killed last.
const GUARANTEED: i64 = -997;
/// The adjustment of what is to be killed first.
const BEST_EFFORT: i64 = 1000;
/// The priority from which on a pod is critical to its node (`system-node-critical`).
const NODE_CRITICAL: i64 = 2_000_001_000;

/// A container's resources on a node with `memory` bytes, whose kernel has pages of the sizes `pages`, in bytes.
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

/// The weight of so many thousandths of a core (upstream `MilliCPUToShares`).
pub(crate) fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(*SHARES.start(), *SHARES.end())
}

/// The quota of so many thousandths of a core; 0 is none (upstream `MilliCPUToQuota`).
pub(crate) fn quota(milli: i64) -> i64 {
    if milli == 0 { 0 } else { (milli.saturating_mul(PERIOD) / 1000).max(LEAST_QUOTA) }
}

/// How ready the kernel is to kill a container when memory runs out (upstream `GetContainerOOMScoreAdjust`).
fn oom_score_adj(pod: Pod<'_>, container: Container<'_>, memory: i64) -> i64 {
    if pod.spec().priority().is_some_and(|priority| priority >= NODE_CRITICAL) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        "Guaranteed" => return GUARANTEED,
        "BestEffort" => return BEST_EFFORT,
        _ => {}
    }
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request) / memory.max(1);
    let spec = pod.spec();
    // What the pod asks for as a whole and no container for itself is shared out.
    let whole = spec.resources().map_or(0, |whole| amount(whole.requests(), "memory").value());
    let count = i64::try_from(spec.containers().len() + spec.init_containers().len()).unwrap_or(1).max(1);
    let rest = if whole == 0 { 0 } else { (whole - aggregate(pod, requested)) / count };
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

/// What `of` says of a pod's containers in sum, or of its init containers at their peak; sidecars count beside both.
fn aggregate(pod: Pod<'_>, of: impl Fn(Container<'_>) -> i64) -> i64 {
    let spec = pod.spec();
    let mut sum: i64 = spec.containers().iter().map(&of).sum();
    let (mut sidecars, mut peak) = (0, 0);
    for init in spec.init_containers().iter() {
        let own = of(init);
        peak = peak.max(sidecars + own);
        if is_sidecar(init) {
            sum += own;
            sidecars += own;
        }
    }
    sum.max(peak)
}

fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

/// The class that the API gave the pod; static pods, which have none, get that of their resources.
pub(crate) fn qos_class(pod: Pod<'_>) -> &'static str {
    match pod.status().qos_class() {
        "Guaranteed" => "Guaranteed",
        "BestEffort" => "BestEffort",
        "Burstable" => "Burstable",
        _ => computed_class(pod),
    }
}

fn computed_class(pod: Pod<'_>) -> &'static str {
    let spec = pod.spec();
    let each: Vec<ResourceRequirements<'_>> = match spec.resources() {
        Some(whole) if !whole.limits().is_empty() || !whole.requests().is_empty() => vec![whole],
        _ => spec.init_containers().iter().chain(spec.containers().iter()).map(|c| c.resources()).collect(),
    };
    let both = ["cpu", "memory"];
    let says = |r: &ResourceRequirements<'_>| {
        both.iter().any(|name| !amount(r.requests(), name).is_zero() || !amount(r.limits(), name).is_zero())
    };
    let exact = |r: &ResourceRequirements<'_>| {
        both.iter().all(|name| {
            let limit = amount(r.limits(), name);
            !limit.is_zero() && (r.requests().get(name).is_none() || amount(r.requests(), name) == limit)
        })
    };
    if !each.iter().any(says) {
        "BestEffort"
    } else if each.iter().all(exact) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// A limit for every page size of the kernel: the container's, else the pod's, else none at all.
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

/// A page size as the kernel's cgroup files write it.
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

/// The bytes that a pod may use at most, if its containers all say it.
pub(crate) fn memory_of(pod: Pod<'_>) -> Option<i64> {
    let spec = pod.spec();
    let whole = spec.resources().map_or(Quantity::ZERO, |whole| amount(whole.limits(), "memory"));
    if !whole.is_zero() {
        return Some(whole.value());
    }
    let limit = |container: Container<'_>| amount(container.resources().limits(), "memory").value();
    let declared = spec.containers().iter().chain(spec.init_containers().iter()).all(|container| limit(container) > 0);
    declared.then(|| aggregate(pod, limit))
}

#[cfg(test)]
mod tests;
