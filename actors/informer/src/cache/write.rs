//! The writes to the cache, made by the reflector: batches of changes, and whole states.

use std::sync::Arc;

use oarlock_client::{Object, Wanted};
use oarlock_meta::{Revision, Status};
use oarlock_seeded_bug::seeded_bug;

use super::{Cache, Items, State};
use crate::cache_revision::Progress;
use crate::changes::Change;
use crate::item::Item;
use crate::key::Key;
use crate::obj_meta::ObjMeta;
use crate::project::Project;
use crate::relay::Delta;

impl<T: Project> Cache<T> {
    /// Decodes and projects an object with this cache's fields and projection.
    ///
    /// # Errors
    /// When the object cannot be decoded.
    pub fn item(&self, object: &Object) -> Result<Arc<Item<T>>, Status> {
        let obj = object.obj_wanted(self.wanted.as_ref().unwrap_or(Wanted::all()))?;
        Ok(Arc::new(match self.project {
            Some(project) => Item { meta: ObjMeta::read(&obj, object.revision, T::ANNOTATIONS), value: project(&obj) },
            None => Item::of(&obj, object.revision),
        }))
    }

    /// Applies changes in order. Changes older than the cached state (sent twice) have no effect. Subscribers and waiters see the whole
    /// batch or nothing of it.
    pub(crate) fn apply(&self, deltas: impl IntoIterator<Item = Delta<T>>) {
        let mut state = self.state.write();
        let mut at = self.progress().revision;
        for delta in deltas {
            at = at.max(delta.revision());
            match delta {
                Delta::Mark(_) => {}
                Delta::Set(item) => state.set(item),
                Delta::Gone(key, revision) => {
                    if state.items.get(&key).is_some_and(|item| item.meta.revision <= revision) {
                        state.remove(&key);
                    }
                }
            }
        }
        drop(state);
        self.advance(at);
    }

    /// Replaces the whole state. Objects missing from `items` are removed and reported as deleted; unchanged objects are not reported.
    pub(crate) fn replace(&self, items: Items<T>, revision: Revision) {
        let mut state = self.state.write();
        let gone: Vec<Key> = state.items.keys().filter(|key| !items.contains(key)).cloned().collect();
        for key in gone {
            if !seeded_bug!("relist_keeps_deleted") {
                state.remove(&key);
            }
        }
        for item in items.into_values() {
            state.put(item);
        }
        drop(state);
        // A server restored from a backup may have a lower revision than the cache; the server's revision holds.
        self.progress.set(Progress { revision, synced: true });
    }

    /// Replaces the whole state and marks the cache as synced. For tests of code that reads caches.
    pub fn fill(&self, items: impl IntoIterator<Item = Item<T>>, revision: Revision) {
        let mut all = Items::default();
        for item in items {
            all.insert(Arc::new(item));
        }
        self.replace(all, revision);
    }

    fn advance(&self, revision: Revision) {
        self.progress.modify(|progress| {
            let ahead = revision > progress.revision;
            progress.revision = progress.revision.max(revision);
            ahead
        });
    }
}

impl<T: Project> State<T> {
    /// Stores a state of an object unless the cache has a newer one.
    fn set(&mut self, item: Arc<Item<T>>) {
        let known = self.items.get(item.key());
        if known.is_none_or(|known| known.meta.revision < item.meta.revision) {
            let old = self.items.insert(item.clone());
            self.changed(old, item);
        }
    }

    /// Stores a state of an object, even over a newer one.
    fn put(&mut self, item: Arc<Item<T>>) {
        let old = self.items.insert(item.clone());
        if !old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &item)) {
            self.changed(old, item);
        }
    }

    fn changed(&mut self, old: Option<Arc<Item<T>>>, item: Arc<Item<T>>) {
        for index in &mut self.indexes {
            index.change(old.as_ref(), Some(&item));
        }
        if !old.as_ref().is_some_and(|old| old.same(&item)) {
            self.publish(&Change { key: item.key().clone(), old, new: Some(item) });
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(old) = self.items.remove(key) else { return };
        for index in &mut self.indexes {
            index.change(Some(&old), None);
        }
        self.publish(&Change { key: key.clone(), old: Some(old), new: None });
    }
}
