//! The printer of nodes.

use std::collections::BTreeSet;

use oarlock_schema::Value;
use oarlock_schema::views::core_v1::Node;

use super::text::{NONE, join, or};
use super::{Now, cells};

const UNKNOWN: &str = "<unknown>";

pub(super) fn node(obj: Node<'_>, now: Now) -> Vec<Value> {
    let (meta, status) = (obj.metadata(), obj.status());
    let mut words = vec![match status.conditions().iter().rfind(|c| c.type_() == "Ready") {
        Some(ready) if ready.status() == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if obj.spec().unschedulable() {
        words.push("SchedulingDisabled");
    }
    let roles = join(roles(obj), ",");
    let info = status.node_info();
    let address = |kind: &str| status.addresses().iter().find(|a| a.type_() == kind).map_or(NONE, |a| a.address());
    cells![
        meta.name(),
        words.join(","),
        or(&roles, NONE),
        now.since(meta.creation_timestamp()),
        info.kubelet_version(),
        address("InternalIP"),
        address("ExternalIP"),
        or(info.os_image(), UNKNOWN),
        or(info.kernel_version(), UNKNOWN),
        or(info.container_runtime_version(), UNKNOWN),
    ]
}

/// Returns the roles that labels state (`node-role.kubernetes.io/<role>`, `kubernetes.io/role=<role>`), sorted.
fn roles(node: Node<'_>) -> BTreeSet<&str> {
    let labels = node.metadata().labels();
    let role = |(key, value)| match (key, value) {
        ("kubernetes.io/role", value) => Some(value),
        (key, _) => str::strip_prefix(key, "node-role.kubernetes.io/"),
    };
    labels.iter().filter_map(role).filter(|role| !role.is_empty()).collect()
}
