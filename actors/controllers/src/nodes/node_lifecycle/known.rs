//! The nodes for which this process has sent the Event RegisteredNode. As upstream, the set is in memory only, so a restart sends the Events again.

use std::collections::BTreeMap;

use oarlock_informer::Item;
use oarlock_meta::Uid;
use oarlock_schema::Str;
use parking_lot::Mutex;

use crate::project::NodeView;

/// The nodes for which this process has sent the Event RegisteredNode.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<Str, Uid>>);

impl Known {
    /// Records that a node exists; returns whether the node was unknown.
    pub(super) fn add(&self, node: &Item<NodeView>) -> bool {
        self.0.lock().insert(node.key().name.clone(), node.meta.uid.clone()).is_none()
    }

    /// Forgets a deleted node; returns its uid if the node was known.
    pub(super) fn forget(&self, node: &str) -> Option<Uid> {
        self.0.lock().remove(node)
    }
}
