//! A cache of facts that stages derive from stored objects, decoded once per version.

use std::collections::HashMap;
use std::sync::Arc;

use oarlock_meta::Revision;
use oarlock_registry::reader;
use oarlock_schema::{Obj, Resource};
use oarlock_storage::Key;
use oarlock_store::Entry;
use parking_lot::Mutex;

/// How many objects are cached before the cache is cleared.
const CAPACITY: usize = 4096;

/// Facts of type `T` derived from objects, by key and revision. Holds at most 4096 of them; a full cache is cleared, which costs one decode per
/// object.
pub struct Cache<T> {
    read: fn(&Obj) -> T,
    known: Mutex<HashMap<Key, (Revision, Arc<T>)>>,
}

impl<T> Cache<T> {
    /// Creates an empty cache; `read` derives the facts from an object.
    #[must_use]
    pub fn new(read: fn(&Obj) -> T) -> Self {
        Self { read, known: Mutex::default() }
    }

    /// Returns the facts of an entry; `None` when its bytes do not decode.
    #[must_use]
    pub fn get(&self, resource: &Resource, entry: &Entry) -> Option<Arc<T>> {
        if let Some((revision, facts)) = self.known.lock().get(&entry.key)
            && *revision == entry.revision
        {
            return Some(Arc::clone(facts));
        }
        let facts = Arc::new((self.read)(&reader::decode(resource, entry)?));
        let mut known = self.known.lock();
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(entry.key.clone(), (entry.revision, Arc::clone(&facts)));
        Some(facts)
    }
}

impl<T> std::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("known", &self.known.lock().len()).finish_non_exhaustive()
    }
}
