//! A snapshot of a DaemonSet, the nodes and the set's pods, from which the plan and the status are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;
use oarlock_workloads::revision::DAEMON_HASH_LABEL;

use super::placement::{Placement, placement};
use super::pods::{Pod, TEMPLATE_GENERATION, by_node};
use crate::project::{DaemonSet, NodeView};

/// A DaemonSet with the nodes and its pods at one moment.
pub(super) struct Snapshot<'a> {
    pub(super) set: &'a Item<DaemonSet>,
    /// The hash of the revision of the set's template.
    hash: &'a str,
    /// All nodes by name.
    pub(super) nodes: BTreeMap<&'a str, Placement>,
    /// The set's pods by node, those first that are kept first.
    pub(super) pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    pub(super) now: Time,
}

impl<'a> Snapshot<'a> {
    /// Takes a snapshot of the nodes and of the pods that the set controls.
    pub(super) fn of(
        set: &'a Item<DaemonSet>,
        hash: &'a str,
        (nodes, pods): (&'a [Arc<Item<NodeView>>], &'a [Pod]),
        now: Time,
    ) -> Self {
        let nodes = nodes.iter().map(|node| (node.meta.name(), placement(&set.value, node))).collect();
        Self { set, hash, nodes, pods: by_node(pods), now }
    }

    /// Returns what the set has to do with a node, which may not exist.
    pub(super) fn placement(&self, node: &str) -> Placement {
        self.nodes.get(node).copied().unwrap_or(Placement::Excluded)
    }

    /// Returns the pods on a node.
    pub(super) fn on(&self, node: &str) -> &[&'a Pod] {
        self.pods.get(node).map_or(&[][..], Vec::as_slice)
    }

    /// The number of nodes that are to run a pod.
    pub(super) fn desired(&self) -> i64 {
        let running = self.nodes.values().filter(|placement| **placement == Placement::Runs);
        i64::try_from(running.count()).unwrap_or(i64::MAX)
    }

    /// Whether a pod has the set's template: by the revision's hash, or by the number of the template (upstream `IsPodUpdated`).
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        let number = pod.meta.label(TEMPLATE_GENERATION).and_then(|number| number.parse::<i64>().ok());
        pod.meta.label(DAEMON_HASH_LABEL) == Some(self.hash)
            || (number.is_some() && number == self.set.value.template_count)
    }

    /// Whether a pod has been ready for long enough.
    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pod.value.available(self.set.value.min_ready, self.now)
    }
}
