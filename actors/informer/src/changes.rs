//! Change notices of a cache: level-triggered, bounded, and at most one for each key however often the object changed. The writer never waits for
//! a subscriber.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::item::Item;
use crate::key::Key;

/// The change of one object since the subscriber's last notice about its key.
pub struct Change<T> {
    /// The key of the object.
    pub key: Key,
    /// The state in the subscriber's last notice, `None` if the object did not exist.
    pub old: Option<Arc<Item<T>>>,
    /// The current state, `None` if the object is deleted. States between the two were skipped; `new` may even be another incarnation (compare uids).
    pub new: Option<Arc<Item<T>>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

impl<T> std::fmt::Debug for Change<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let revision = |item: &Option<Arc<Item<T>>>| item.as_ref().map(|item| item.meta.revision.get());
        write!(f, "{} {:?} -> {:?}", self.key, revision(&self.old), revision(&self.new))
    }
}

impl<T> Change<T> {
    /// Returns the current state, or the last state of a deleted object.
    #[must_use]
    pub fn latest(&self) -> Option<&Arc<Item<T>>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// One notification of a subscriber.
#[derive(Debug)]
pub enum Notice<T> {
    /// Anything may have changed: the subscriber must read the whole cache. The first notice of a subscription, and the notice after an overflow.
    Resync,
    /// These keys changed, in the order of their first change; at least one.
    Changes(Vec<Change<T>>),
}

/// A subscription to the changes of a cache, made by [`crate::Cache::subscribe`]. Dropping the value ends the subscription.
pub struct Changes<T> {
    subscriber: Arc<Subscriber<T>>,
}

impl<T> std::fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("waiting", &self.subscriber.pending.lock().changes.len())
            .finish_non_exhaustive()
    }
}

/// The cache's side of a subscription: holds the pending changes until the subscriber takes them.
pub(crate) struct Subscriber<T> {
    capacity: usize,
    pending: Mutex<Pending<T>>,
    ready: Notify,
}

/// The changes that a subscriber has not taken yet; empty while `resync` is set.
struct Pending<T> {
    resync: bool,
    changes: IndexMap<Key, States<T>>,
}

/// The first and the last state of an object in the pending changes.
struct States<T> {
    old: Option<Arc<Item<T>>>,
    new: Option<Arc<Item<T>>>,
}

impl<T> Changes<T> {
    pub(crate) fn new(capacity: usize) -> (Self, Arc<Subscriber<T>>) {
        let subscriber = Arc::new(Subscriber {
            capacity: capacity.max(1),
            pending: Mutex::new(Pending { resync: true, changes: IndexMap::new() }),
            ready: Notify::new(),
        });
        (Self { subscriber: subscriber.clone() }, subscriber)
    }

    /// Waits for the next notice, without a deadline: the caller's loop also waits for its own shutdown. Cancel safe.
    pub async fn next(&mut self) -> Notice<T> {
        loop {
            let ready = self.subscriber.ready.notified();
            if let Some(notice) = self.subscriber.take() {
                return notice;
            }
            ready.await;
        }
    }

    /// Returns the next notice if one is pending.
    pub fn try_next(&mut self) -> Option<Notice<T>> {
        self.subscriber.take()
    }
}

impl<T> Subscriber<T> {
    pub(crate) fn push(&self, change: &Change<T>) {
        let mut pending = self.pending.lock();
        if pending.resync {
            return; // the pending Resync covers every key
        }
        if let Some(states) = pending.changes.get_mut(&change.key) {
            states.new.clone_from(&change.new);
        } else if pending.changes.len() >= self.capacity {
            *pending = Pending { resync: true, changes: IndexMap::new() };
        } else {
            let states = States { old: change.old.clone(), new: change.new.clone() };
            pending.changes.insert(change.key.clone(), states);
        }
        drop(pending);
        self.ready.notify_one();
    }

    fn take(&self) -> Option<Notice<T>> {
        let mut pending = self.pending.lock();
        if std::mem::take(&mut pending.resync) {
            return Some(Notice::Resync);
        }
        let changes: Vec<Change<T>> = std::mem::take(&mut pending.changes)
            .into_iter()
            .filter(|(_, states)| states.old.is_some() || states.new.is_some())
            .map(|(key, States { old, new })| Change { key, old, new })
            .collect();
        (!changes.is_empty()).then_some(Notice::Changes(changes))
    }
}
