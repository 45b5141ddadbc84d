//! The revision that a cache reflects, whatever it caches.

use oarlock_meta::{Revision, Uid};
use oarlock_runtime::Follower;

use crate::key::Key;

/// The state of a cache: the revision it reflects, and whether its first complete state has been applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Every change up to this revision has been applied.
    pub revision: Revision,
    /// The first complete state has been applied.
    pub synced: bool,
}

/// A cache that reports which revision it reflects.
pub trait CacheRevision: Send + Sync + 'static {
    /// The revision up to which every change has been applied; zero before the first complete state.
    fn applied(&self) -> Revision;
    /// Whether the cache holds this incarnation of an object, and the object is not being deleted.
    fn holds(&self, key: &Key, uid: &Uid) -> bool;
    /// Follows the cache's progress.
    fn follow(&self) -> Follower<Progress>;
}
