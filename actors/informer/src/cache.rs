//! The cache: projections by key and by index, how fresh they are, and who wants to hear of changes.
//!
//! One writer, the reflector; any number of readers, which never wait for it longer than one batch takes to apply. Readers get shared
//! items, so nothing they hold changes under them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use oarlock_client::{Object, Wanted};
use oarlock_meta::{LabelSelector, Revision, Uid};
use oarlock_runtime::clock::{self, Instant};
use oarlock_runtime::{Follower, Watched};
use oarlock_schema::{Obj, Str};
use parking_lot::RwLock;

use crate::changes::{Change, Changes, Subscriber};
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;
use crate::relay::Relay;

mod index;
#[cfg(test)]
mod tests;
mod write;

pub use index::Index;
use index::Table;

/// How far a cache has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Every change up to this revision has been applied.
    pub revision: Revision,
    /// The first complete state has been applied.
    pub synced: bool,
}

/// A cache did not come far enough in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache is at revision {at}, not yet at {wanted}")]
pub struct Lagging {
    /// Where it stands.
    pub at: Revision,
    /// Where it should be; zero: synced at all.
    pub wanted: Revision,
}

/// The projections of one resource (or of a selection of it). See the module text.
pub struct Cache<T> {
    state: RwLock<State<T>>,
    /// In place of `T::project`.
    project: Option<fn(&Obj) -> T>,
    /// What of an object is decoded; `None`: all of it.
    wanted: Option<Wanted>,
    progress: Arc<Watched<Progress>>,
    relay: Relay<T>,
}

struct State<T> {
    items: BTreeMap<Key, Arc<Item<T>>>,
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
        let state = State { items: BTreeMap::new(), indexes: Vec::new(), subscribers: Vec::new() };
        let wanted = Some(T::FIELDS.wanted());
        Self { state: RwLock::new(state), project: None, wanted, progress: Arc::default(), relay: Relay::default() }
    }
}

impl<T: Project> Cache<T> {
    /// A cache whose items are projected so, for consumers that read more of the same objects than others of the type: maybe all.
    #[must_use]
    pub fn projecting(project: fn(&Obj) -> T) -> Self {
        Self { project: Some(project), wanted: None, ..Self::default() }
    }
}

impl<T> Cache<T> {
    /// The item of a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Item<T>>> {
        self.state.read().items.get(key).cloned()
    }

    /// The item of a namespace and name.
    #[must_use]
    pub fn named(&self, namespace: &str, name: &str) -> Option<Arc<Item<T>>> {
        self.get(&Key::new(namespace, name))
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All items in key order. Costs one pointer an item; take what an index gives where one fits.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Item<T>>> {
        self.state.read().items.values().cloned().collect()
    }

    /// All keys in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.state.read().items.keys().cloned().collect()
    }

    /// The items of a namespace in key order.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Item<T>>> {
        let first = Key::new(namespace, "");
        let state = self.state.read();
        let from = state.items.range((Bound::Included(first), Bound::Unbounded));
        from.take_while(|(key, _)| key.namespace == namespace).map(|(_, item)| item.clone()).collect()
    }

    /// The items of a namespace (all when empty) whose labels a selector selects, in key order.
    #[must_use]
    pub fn select(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Item<T>>> {
        let mut items = if namespace.is_empty() { self.list() } else { self.in_namespace(namespace) };
        items.retain(|item| selector.matches(&*item.meta.labels));
        items
    }

    /// How far the cache has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// The revision up to which every change has been applied.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.progress().revision
    }

    /// Whether the first complete state has been applied.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.progress().synced
    }

    /// Waits for the first complete state.
    ///
    /// # Errors
    /// [`Lagging`] when it had not come at `deadline`.
    pub async fn synced(&self, deadline: Instant) -> Result<(), Lagging> {
        self.reach(Revision::ZERO, deadline).await
    }

    /// Waits until every change up to `revision` (and the first complete state) has been applied. A revision of another resource is
    /// reached with the next event or bookmark only, which may take a minute.
    ///
    /// # Errors
    /// [`Lagging`] when it had not come at `deadline`.
    pub async fn at_least(&self, revision: Revision, deadline: Instant) -> Result<(), Lagging> {
        self.reach(revision, deadline).await
    }

    async fn reach(&self, wanted: Revision, deadline: Instant) -> Result<(), Lagging> {
        let there = self.progress.wait_for(|progress| progress.synced && progress.revision >= wanted);
        let reached = clock::timeout_at(deadline, there).await;
        reached.map(drop).map_err(|_| Lagging { at: self.revision(), wanted })
    }

    /// Follows the progress.
    pub fn watch_progress(&self) -> Follower<Progress> {
        self.progress.follow()
    }

    /// Between what keeps this cache current and other processes that read the same.
    #[must_use]
    pub const fn relay(&self) -> &Relay<T> {
        &self.relay
    }

    /// Tells of changes from now on, beginning with [`crate::Notice::Resync`]. At most `capacity` keys wait; when there are more, one
    /// `Resync` takes their place. A subscriber that does not ask costs nothing else.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> Changes<T> {
        let (changes, subscriber) = Changes::new(capacity);
        self.state.write().subscribers.push(Arc::downgrade(&subscriber));
        changes
    }
}

/// What identifies the cached state of an object, for a reflector that wants to spare a decode.
pub(crate) fn unchanged<T>(cache: &Cache<T>, key: &Key, uid: &Str, object: &Object) -> Option<Arc<Item<T>>> {
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

impl<T: Send + Sync + 'static> crate::own_writes::Fresh for Cache<T> {
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
