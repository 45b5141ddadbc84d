//! The index of pods by the node to which they are bound.

use std::sync::Arc;

use oarlock_informer::{Cache, Index};

use crate::project::PodView;

/// Returns the index of bound pods by the node's name.
pub(crate) fn pods_by_node(pods: &Arc<Cache<PodView>>) -> Index<PodView> {
    pods.index("node", |pod, value| {
        if !pod.value.node.is_empty() {
            value(&pod.value.node);
        }
    })
}
