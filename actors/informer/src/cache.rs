//! The cache: projections of API objects by key and by index, with the revision they reflect and the subscribers to their changes.
//!
//! The reflector is the only writer. Any number of readers wait for the writer no longer than one batch of changes takes to apply. Readers get
//! shared, immutable items.
//!
//! # Staleness
//! A cache may lag behind the apiserver by any time, for instance during a network outage, but never shows a state that the apiserver did not have.
//! Before the first complete state ([`Cache::is_synced`]) a cache is empty, so an absent object proves nothing. Revisions only grow, except when the
//! apiserver was restored from a backup. Each read locks the cache by itself: two reads may see different revisions. A caller that has just
//! written, or has learned a revision elsewhere, calls [`Cache::at_least`] first; a caller whose decision must hold now writes with a precondition
//! (uid or `resourceVersion`) and lets the apiserver decide. Objects that cannot be decoded are missing from the cache; the reflector logs each.

use std::sync::{Arc, Weak};

use oarlock_client::{Object, Wanted};
use oarlock_meta::{LabelSelector, Revision, Uid};
use oarlock_runtime::clock::{self, Instant};
use oarlock_runtime::{Follower, Watched};
use oarlock_schema::{Obj, Str};
use parking_lot::RwLock;

use crate::cache_revision::{CacheRevision, Progress};
use crate::changes::{Change, Changes, Subscriber};
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;
use crate::relay::Relay;

mod index;
mod items;
#[cfg(test)]
mod tests;
mod write;

pub use index::Index;
use index::Table;
pub(crate) use items::Items;

/// The error of a wait for a cache that did not reach a revision before the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache is at revision {at}, not yet at {wanted}")]
pub struct NotCaughtUp {
    /// The revision that the cache had reached at the deadline.
    pub at: Revision,
    /// The revision that was waited for; zero when only the first complete state was.
    pub wanted: Revision,
}

/// An in-memory copy of the objects of one resource (or of a [`crate::Selection`] of them), reduced to projections and kept current by a reflector.
///
/// Reads never wait for the apiserver and may be stale; each method says what staleness means for its caller.
pub struct Cache<T> {
    state: RwLock<State<T>>,
    /// The projection to use in place of `T::project`.
    project: Option<fn(&Obj) -> T>,
    /// The fields to decode of each object; `None` for all.
    wanted: Option<Wanted>,
    progress: Arc<Watched<Progress>>,
    relay: Relay<T>,
}

/// The locked content of a cache: the objects, their indexes, and the subscribers to changes.
struct State<T> {
    items: Items<T>,
    indexes: Vec<Table<T>>,
    subscribers: Vec<Weak<Subscriber<T>>>,
}

impl<T> std::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let progress = self.progress.get();
        f.debug_struct("Cache").field("items", &self.len()).field("progress", &progress).finish_non_exhaustive()
    }
}

impl<T: Project> Default for Cache<T> {
    fn default() -> Self {
        let state = State { items: Items::default(), indexes: Vec::new(), subscribers: Vec::new() };
        let wanted = Some(T::FIELDS.wanted());
        Self { state: RwLock::new(state), project: None, wanted, progress: Arc::default(), relay: Relay::default() }
    }
}

impl<T: Project> Cache<T> {
    /// An empty cache that calls `project` in place of `T::project`, and decodes whole objects. For consumers that read more fields than others of `T`.
    #[must_use]
    pub fn projecting(project: fn(&Obj) -> T) -> Self {
        Self { project: Some(project), wanted: None, ..Self::default() }
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Returns the object with this key as of the last applied change.
    ///
    /// The object may have been changed, deleted, or deleted and recreated since; compare uids before acting on an incarnation. `None` does not prove
    /// that the apiserver has no such object: a recent create may not have arrived, and an unsynced cache is empty. Ask the apiserver where that matters.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Item<T>>> {
        self.state.read().items.get(key)
    }

    /// Returns the object with this namespace and name; as stale as with [`Cache::get`].
    #[must_use]
    pub fn named(&self, namespace: &str, name: &str) -> Option<Arc<Item<T>>> {
        self.get(&Key::new(namespace, name))
    }

    /// Returns all objects in key order, as of one revision. Copies one pointer for each object; prefer an [`Index`] where one fits.
    ///
    /// The list stays as it is while the cache moves on: by the time the caller has worked through it, objects may be deleted or missing from it.
    /// A caller that must not miss later changes subscribes before it lists.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Item<T>>> {
        self.state.read().items.values().collect()
    }

    /// Returns the objects of a namespace in key order, as of one revision; as stale as with [`Cache::list`]. An empty answer does not prove that the
    /// namespace is empty.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Item<T>>> {
        let state = self.state.read();
        let from = state.items.from(Key::new(namespace, ""));
        from.take_while(|item| item.meta.namespace() == namespace).collect()
    }

    /// Returns the objects of a namespace (of all namespaces when empty) that a label selector matches, in key order, as of one revision.
    ///
    /// Labels may have changed since: an object may no longer match, or a matching one may be missing. Reads every object of the namespace.
    #[must_use]
    pub fn select(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Item<T>>> {
        let mut items = if namespace.is_empty() { self.list() } else { self.in_namespace(namespace) };
        items.retain(|item| selector.matches(&*item.meta.labels));
        items
    }
}

impl<T> Cache<T> {
    /// The number of objects in the cache. Zero before the first complete state, and inexact by the changes that have not arrived; do not enforce a
    /// limit by this count alone.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().items.len()
    }

    /// Whether the cache holds no object. Says nothing about the cluster before the cache is synced; check [`Cache::is_synced`] first.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all keys in order, as of one revision. The object of a key may be deleted by the time the caller reads it with [`Cache::get`].
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.state.read().items.keys().cloned().collect()
    }

    /// Returns the revision that the cache reflects and whether its first complete state has been applied, both of one moment.
    ///
    /// The cache may advance before the caller's next read, so this is a lower bound: a read that follows shows at least this revision.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Returns the revision up to which every change has been applied; zero before the first complete state. A lower bound for the reads that follow.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.progress().revision
    }

    /// Whether the first complete state has been applied. Says that reads show every object as of some revision, not that they are current: a synced
    /// cache remains synced while its watch is broken.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.progress().synced
    }

    /// Waits until the first complete state has been applied. Reads that follow show every object that existed at [`Cache::revision`]; newer changes
    /// may be missing.
    ///
    /// # Errors
    /// [`NotCaughtUp`] when the cache is not synced at `deadline`.
    pub async fn synced(&self, deadline: Instant) -> Result<(), NotCaughtUp> {
        self.reach(Revision::ZERO, deadline).await
    }

    /// Waits until every change up to `revision` (and the first complete state) has been applied. Reads that follow show the write that returned
    /// `revision`, or a later state. A revision of another resource is reached with the next event or bookmark only, which may take a minute.
    ///
    /// # Errors
    /// [`NotCaughtUp`] when the cache has not reached `revision` at `deadline`. The cache can still be read, but may not show the write.
    pub async fn at_least(&self, revision: Revision, deadline: Instant) -> Result<(), NotCaughtUp> {
        self.reach(revision, deadline).await
    }

    async fn reach(&self, wanted: Revision, deadline: Instant) -> Result<(), NotCaughtUp> {
        let there = self.progress.wait_for(|progress| progress.synced && progress.revision >= wanted);
        let reached = clock::timeout_at(deadline, there).await;
        reached.map(drop).map_err(|_| NotCaughtUp { at: self.revision(), wanted })
    }

    /// Follows the cache's progress. The follower sees the latest value, not each one between; a value seen is a lower bound for the reads that follow.
    pub fn watch_progress(&self) -> Follower<Progress> {
        self.progress.follow()
    }

    /// The relay that passes this cache's changes to other processes, or other processes' changes to this cache.
    #[must_use]
    pub const fn relay(&self) -> &Relay<T> {
        &self.relay
    }

    /// Subscribes to changes. The first notice is [`crate::Notice::Resync`]. At most `capacity` changed keys are kept for the subscriber; when there
    /// are more, one `Resync` replaces them. A slow subscriber never delays the cache or other subscribers.
    ///
    /// A notice follows the change: the cache shows the notified state or a later one, and states between two notices are skipped.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> Changes<T> {
        let (changes, subscriber) = Changes::new(capacity);
        self.state.write().subscribers.push(Arc::downgrade(&subscriber));
        changes
    }
}

/// Returns the cached item when it has the uid and revision of `object`, so that the reflector need not decode the object again.
pub(crate) fn unchanged<T: Project>(cache: &Cache<T>, key: &Key, uid: &Str, object: &Object) -> Option<Arc<Item<T>>> {
    let item = cache.get(key)?;
    (item.meta.revision == object.revision && item.meta.uid.0 == *uid && !object.revision.is_zero()).then_some(item)
}

impl<T> State<T> {
    fn publish(&mut self, change: &Change<T>) {
        self.subscribers.retain(|subscriber| match subscriber.upgrade() {
            Some(subscriber) => {
                subscriber.push(change);
                true
            }
            None => false,
        });
    }
}

impl<T: Send + Sync + 'static> CacheRevision for Cache<T> {
    fn applied(&self) -> Revision {
        let progress = self.progress();
        if progress.synced { progress.revision } else { Revision::ZERO }
    }

    fn holds(&self, key: &Key, uid: &Uid) -> bool {
        self.get(key).is_some_and(|item| item.meta.uid == *uid && !item.meta.deleting())
    }

    fn follow(&self) -> Follower<Progress> {
        self.watch_progress()
    }
}
