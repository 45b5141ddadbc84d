//! Admission of pods: whether this node accepts a pod bound to it. Checks and texts are those of the kubelet's predicates
//! (`pkg/kubelet/lifecycle/predicate.go`). Schedulers make the same checks, so a rejection means that two schedulers raced, or that the pod was bound without
//! one.

use std::collections::BTreeMap;

use oarlock_schema::Str;

use crate::affinity::NodeView;
use crate::template::{HostPort, Template};

/// Resources of a node for its pods: milli-cores of `cpu`, whole units of every other resource, `pods` included.
pub(crate) type Amounts = BTreeMap<Str, i64>;

/// Reason and message of a pod's rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// `status.reason`.
    pub(crate) reason: Str,
    /// Message of the Event; `status.message` puts "Pod was rejected: " before it.
    pub(crate) message: String,
}

impl Rejection {
    /// Whether the rejection depends on the node's labels or taints.
    pub(crate) fn of_node(&self) -> bool {
        matches!(self.reason.as_str(), "NodeAffinity" | "TaintToleration")
    }
}

/// Resources and host ports that the admitted pods use.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pods: i64,
    amounts: Amounts,
    ports: Vec<HostPort>,
}

impl Used {
    pub(crate) fn add(&mut self, template: &Template) {
        self.pods += 1;
        for (name, amount) in &*template.requests {
            *self.amounts.entry(name.clone()).or_default() += amount;
        }
        self.ports.extend(template.ports.iter().cloned());
    }

    pub(crate) fn remove(&mut self, template: &Template) {
        self.pods -= 1;
        for (name, amount) in &*template.requests {
            *self.amounts.entry(name.clone()).or_default() -= amount;
        }
        for port in &*template.ports {
            if let Some(at) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(at);
            }
        }
    }

    fn of(&self, name: &str) -> i64 {
        self.amounts.get(name).copied().unwrap_or(0)
    }
}

/// Admits a pod, or returns why the node rejects the pod. Labels and taints may be stale: after a rejection [for the node's labels or
/// taints](Rejection::of_node) the caller must try again with fresh ones. Taints keep no static pod away.
pub(crate) fn admit(
    pod: &Template,
    node: &NodeView,
    has: &Amounts,
    used: &Used,
    is_static: bool,
) -> Result<(), Rejection> {
    let slots = has.get("pods").copied().unwrap_or(110);
    if used.pods + 1 > slots {
        return Err(out_of("pods", 1, used.pods, slots));
    }
    // cpu, memory and storage first, as upstream reports them.
    let rank = |name: &str| ["cpu", "memory", "ephemeral-storage"].iter().position(|known| *known == name).unwrap_or(3);
    let mut requests: Vec<&(Str, i64)> = pod.requests.iter().collect();
    requests.sort_by_key(|(name, _)| rank(name));
    for (name, wanted) in requests {
        let extended = rank(name) == 3 && !name.starts_with("hugepages-");
        let capacity = match has.get(name) {
            Some(capacity) => *capacity,
            // Extended resources that the node does not report may be resources of the cluster as a whole (upstream `removeMissingExtendedResources`).
            None if extended => continue,
            None => 0,
        };
        if used.of(name) + wanted > capacity {
            return Err(out_of(name, *wanted, used.of(name), capacity));
        }
    }
    let predicate = |name: &str, why: &str| {
        Err(Rejection { reason: name.into(), message: format!("Predicate {name} failed: {why}") })
    };
    if !pod.constraints.fits(node) {
        return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
    }
    if pod.ports.iter().any(|wanted| used.ports.iter().any(|taken| clash(wanted, taken))) {
        return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports");
    }
    if !is_static && !pod.constraints.tolerates(node) {
        return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate");
    }
    Ok(())
}

fn clash(a: &HostPort, b: &HostPort) -> bool {
    a.0 == b.0 && a.2 == b.2 && (a.1 == b.1 || a.1.is_empty() || b.1.is_empty())
}

fn out_of(name: &str, requested: i64, used: i64, capacity: i64) -> Rejection {
    Rejection {
        reason: format!("OutOf{name}").into(),
        message: format!(
            "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}
