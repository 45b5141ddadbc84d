//! The quota usage of pods: the objects and, until the pods have ended, their number and resources.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::format_compact;
use oarlock_meta::Time;
use oarlock_runtime::clock;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{Container, Pod};

use super::usage::whole;
use oarlock_pods::amounts::Quantities;
use oarlock_pods::{Amounts, RequirementKind, Sum, pod_level, termination};

/// Resources that every container must specify under a quota of them. Upstream keeps this rule for old resources only.
const REQUIRED: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether pods are counted under this resource name.
pub(super) fn counts(name: &str) -> bool {
    let known = ["pods", "count/pods", "cpu", "memory", "ephemeral-storage"].contains(&name)
        || name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).is_some_and(native);
    known
        || is_huge_page(name)
        || name.strip_prefix("requests.").is_some_and(|rest| is_huge_page(rest) || is_extended(rest))
}

fn native(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a name has a domain other than Kubernetes' own (upstream `helper.IsExtendedResourceName`).
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io")) && !name.starts_with("requests.")
}

/// Checks that under a quota of cpu or memory every container specifies the amounts, unless the pod does so as a whole.
pub(super) fn must_specify(counted: &[&str], object: &Obj) -> Result<(), String> {
    let Some(pod) = object.view::<Pod<'_>>() else { return Ok(()) };
    if pod_level::is_set(pod.spec()) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let spec = pod.spec();
    for container in spec.containers().iter().chain(spec.init_containers().iter()) {
        for name in counted.iter().filter(|name| REQUIRED.contains(name) && !says(container, name)) {
            missing.entry(name).or_default().insert(container.name());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
    let texts: Vec<String> = missing.into_iter().map(|(name, names)| format!("{name} for: {}", list(names))).collect();
    Err(format!("must specify {}", texts.join("; ")))
}

fn says(container: Container<'_>, name: &str) -> bool {
    let resources = container.resources();
    match name.strip_prefix("limits.") {
        Some(name) => resources.limits().get(name).is_some(),
        None => resources.requests().get(name.strip_prefix("requests.").unwrap_or(name)).is_some(),
    }
}

/// Returns the usage of a pod.
pub(super) fn usage(object: &Obj) -> Amounts {
    let mut amounts = Amounts::default();
    amounts.set("count/pods", whole(1));
    let Some(pod) = object.view::<Pod<'_>>().filter(|pod| !has_ended(*pod)) else { return amounts };
    amounts.set("pods", whole(1));
    let sum = |side| Sum::new(pod.spec(), side).with_status(pod.status()).total(&Quantities);
    for (name, amount) in sum(RequirementKind::Requests).iter() {
        if native(name) || is_huge_page(name) {
            amounts.set(name, amount.clone());
        }
        if native(name) || is_huge_page(name) || is_extended(name) {
            amounts.set(format_compact!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in sum(RequirementKind::Limits).iter().filter(|(name, _)| native(name)) {
        amounts.set(format_compact!("limits.{name}"), amount.clone());
    }
    amounts
}

/// Whether a pod has finished, or its node has let the grace period pass: such a pod uses nothing.
fn has_ended(pod: Pod<'_>) -> bool {
    if termination::has_ended(pod.status()) {
        return true;
    }
    let meta = pod.metadata();
    let (Some(deleted), Some(grace)) = (meta.deletion_timestamp(), meta.deletion_grace_period_seconds()) else {
        return false;
    };
    Time::parse(deleted).is_ok_and(|deleted| clock::wall().as_second() > deleted.unix().saturating_add(grace))
}
