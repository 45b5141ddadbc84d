//! The pods of a DaemonSet by their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::project::PodView;

/// A cached pod.
pub(super) type Pod = Arc<Item<PodView>>;

/// The label with the number of the pod's template (upstream `DeprecatedTemplateGeneration` on pods).
pub(super) const TEMPLATE_GENERATION: &str = "pod-template-generation";

/// Sorts pods by the node to which they are bound or pinned. Left out are pods without such a node, and pods that have ended and are being deleted: nothing
/// is left to do about them.
pub(super) fn by_node(pods: &[Pod]) -> BTreeMap<&str, Vec<&Pod>> {
    let mut nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !(pod.meta.deleting() && pod.value.terminal())) {
        let node = pod.value.target_node();
        if !node.is_empty() {
            nodes.entry(node).or_default().push(pod);
        }
    }
    nodes.values_mut().for_each(|on_node| on_node.sort_by(|a, b| rank(a).cmp(&rank(b))));
    nodes
}

/// The rank of a pod among those of its node, of which the first is kept: bound ones come first, then older ones (upstream
/// `podByCreationTimestampAndPhase`).
fn rank(pod: &Item<PodView>) -> (bool, Option<Time>, &str) {
    (pod.value.node.is_empty(), pod.meta.created, pod.meta.name())
}
