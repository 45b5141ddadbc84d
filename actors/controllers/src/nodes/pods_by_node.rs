//! Pods by the node that they are bound to.

use std::sync::Arc;

use oarlock_informer::{Cache, Index};

use crate::project::PodView;

/// An index of the pods that are bound to each node, by the node's name.
pub(crate) fn pods_by_node(pods: &Arc<Cache<PodView>>) -> Index<PodView> {
    pods.index("node", |pod, value| {
        if !pod.value.node.is_empty() {
            value(&pod.value.node);
        }
    })
}
