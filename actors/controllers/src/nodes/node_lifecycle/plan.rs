//! Plans the conditions and taints of a node.

use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::project::{NodeView, PodView, Taint};

/// The conditions that become Unknown when a kubelet stops reporting.
pub(super) const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Condition, its bad status and the taint for it.
const TABLE: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether a node without a sign of life still has conditions that are not Unknown.
pub(super) fn silent(node: &NodeView) -> bool {
    REPORTED.iter().any(|kind| node.condition(kind) != Some("Unknown"))
}

/// Returns the pods of a node that have been ready since before the node became not ready.
pub(super) fn stale_pods<'a>(
    node: &NodeView,
    pods: &'a [Arc<Item<PodView>>],
) -> impl Iterator<Item = &'a Arc<Item<PodView>>> {
    let transition = node.transition;
    let before =
        move |pod: &Item<PodView>| transition.is_none_or(|at| pod.value.ready_since.is_none_or(|since| since <= at));
    pods.iter().filter(move |pod| pod.value.ready && before(pod))
}

fn ours(taint: &Taint) -> bool {
    let key = taint.key.as_str();
    match taint.effect.as_str() {
        "NoSchedule" => key == UNSCHEDULABLE || TABLE.iter().any(|row| row.2 == key),
        "NoExecute" => evicts(taint),
        _ => false,
    }
}

fn evicts(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE)
}

/// Returns the wanted taints of a node: taints of other clients unchanged, and this controller's taints by the node's conditions. With `evict`, nodes that
/// are not ready get NoExecute taints.
pub(super) fn taints(node: &NodeView, evict: bool, now: Time) -> Box<[Taint]> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, bad, key) in TABLE {
        if node.condition(kind) == Some(bad) {
            wanted.push((key, "NoSchedule"));
            if kind == "Ready" && evict {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    // Admission taints new nodes as not ready; this taint stays until the node first reports its condition.
    let newborn = node.condition("Ready").is_none();
    let kept = node.taints.iter().filter(|taint| {
        !ours(taint)
            || wanted.iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect)
            || (newborn && taint.key == NOT_READY)
    });
    let mut taints: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            taints.push(Taint { key: key.into(), value: "".into(), effect: effect.into(), added: Some(now) });
        }
    }
    taints.into()
}

/// Whether the wanted taints begin an eviction of the node's pods.
pub(super) fn adds_eviction(node: &NodeView, wanted: &[Taint]) -> bool {
    wanted.iter().any(evicts) && !node.taints.iter().any(evicts)
}

/// Returns the wanted taints without those that would begin an eviction of the node's pods.
pub(super) fn without_eviction(node: &NodeView, wanted: Box<[Taint]>) -> Box<[Taint]> {
    wanted.into_iter().filter(|taint| !evicts(taint) || node.taints.contains(taint)).collect()
}
