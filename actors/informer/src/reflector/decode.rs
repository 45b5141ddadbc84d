//! Decodes the objects of events, each once.

use std::sync::Arc;

use oarlock_client::Object;
use oarlock_meta::Status;

use crate::cache::{Cache, unchanged};
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;

/// Decodes and projects an object, or returns the cached item if the cache has the same revision.
pub(super) fn known<T: Project>(cache: &Cache<T>, object: &Object) -> Result<Arc<Item<T>>, Status> {
    if cache.is_empty() {
        return cache.item(object);
    }
    let head = object.head()?;
    let key = Key::new(head.namespace, head.name);
    unchanged(cache, &key, &head.uid, object).map_or_else(|| cache.item(object), Ok)
}

/// Returns the key of a deleted object, whose other fields are not needed.
pub(super) fn key(object: &Object) -> Result<Key, Status> {
    let head = object.head()?;
    Ok(Key::new(head.namespace, head.name))
}
