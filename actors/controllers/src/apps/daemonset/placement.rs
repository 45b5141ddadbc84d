//! Decides on which nodes a DaemonSet's pods run (upstream `NodeShouldRunDaemonPod`).

use std::sync::Arc;

use oarlock_informer::{Cache, Change, Item, Key};
use oarlock_pods::Effect;

use crate::project::{DaemonSet, NodeView};

/// What a DaemonSet has to do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// A pod runs on the node, and is created if there is none.
    Runs,
    /// A pod that is on the node stays, and none is created: the node has a taint that keeps new pods away.
    Stays,
    /// No pod runs on the node.
    Excluded,
}

/// Decides about one node. Of its state only name, labels and taints matter, and no resources.
pub(super) fn placement(set: &DaemonSet, node: &Item<NodeView>) -> Placement {
    let name = node.meta.name();
    let is_named = set.node.is_empty() || set.node == name;
    if !is_named || !set.nodes.matches(name, |key| node.meta.label(key)) {
        return Placement::Excluded;
    }
    let repels = |effect: Effect| {
        node.value.taints.iter().any(|taint| {
            Effect::read(&taint.effect) == Some(effect)
                && !set.tolerations.iter().any(|one| one.tolerates(&taint.key, &taint.value, effect))
        })
    };
    if repels(Effect::NoExecute) {
        Placement::Excluded
    } else if repels(Effect::NoSchedule) {
        Placement::Stays
    } else {
        Placement::Runs
    }
}

/// Enqueues the DaemonSets for which a changed node means something else than before. A node that does not exist means the same as an excluded one.
pub(super) fn enqueue_concerned(sets: &Cache<DaemonSet>, change: &Change<NodeView>, enqueue: &mut dyn FnMut(Key)) {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && old.meta.labels == new.meta.labels
        && old.value.taints == new.value.taints
    {
        return;
    }
    for set in sets.list() {
        let before = meaning(&set.value, change.old.as_ref());
        if before != meaning(&set.value, change.new.as_ref()) {
            enqueue(set.key().clone());
        }
    }
}

fn meaning(set: &DaemonSet, node: Option<&Arc<Item<NodeView>>>) -> Placement {
    node.map_or(Placement::Excluded, |node| placement(set, node))
}
