//! The nodes about which this process has sent the Event RegisteredNode. As upstream, they are kept in memory only, so that a restart sends the Events again.

use std::collections::BTreeMap;

use oarlock_informer::Item;
use oarlock_meta::Uid;
use oarlock_schema::Str;
use parking_lot::Mutex;

use crate::project::NodeView;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<Str, Uid>>);

impl Known {
    /// Notes that a node exists; returns whether it was unknown.
    pub(super) fn add(&self, node: &Item<NodeView>) -> bool {
        self.0.lock().insert(node.key().name.clone(), node.meta.uid.clone()).is_none()
    }

    /// Forgets a node that is gone; returns its uid if it was known.
    pub(super) fn forget(&self, node: &str) -> Option<Uid> {
        self.0.lock().remove(node)
    }
}
