//! The nodes that this process has told users about. Upstream keeps them by name in memory too, and tells anew after a restart.

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
    /// A node is there; whether that is news.
    pub(super) fn add(&self, node: &Item<NodeView>) -> bool {
        self.0.lock().insert(node.key().name.clone(), node.meta.uid.clone()).is_none()
    }

    /// A node is gone; its uid, if it was known.
    pub(super) fn forget(&self, node: &str) -> Option<Uid> {
        self.0.lock().remove(node)
    }
}
