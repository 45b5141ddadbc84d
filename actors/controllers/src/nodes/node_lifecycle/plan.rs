//! Which conditions and taints a node should have.

use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::project::{NodeView, PodView, Taint};

/// What a kubelet that says nothing leaves unknown.
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

/// Whether a node that gives no sign still claims to know its conditions.
pub(super) fn silent(node: &NodeView) -> bool {
    REPORTED.iter().any(|kind| node.condition(kind) != Some("Unknown"))
}

/// The pods of a node that claim to be ready since before the node stopped being so.
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

/// The taints of a node: those of others as they are, ours as its conditions say. `evict`: nodes that are not ready are to be emptied.
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
    // Admission taints new nodes; that stays until the node says for the first time how it is.
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

/// Whether the wanted taints begin to empty the node.
pub(super) fn adds_eviction(node: &NodeView, wanted: &[Taint]) -> bool {
    wanted.iter().any(evicts) && !node.taints.iter().any(evicts)
}

/// The wanted taints without those that would begin to empty the node.
pub(super) fn without_eviction(node: &NodeView, wanted: Box<[Taint]>) -> Box<[Taint]> {
    wanted.into_iter().filter(|taint| !evicts(taint) || node.taints.contains(taint)).collect()
}
