//! From events to deltas: the one decode of each object.

use std::sync::Arc;

use oarlock_client::Object;
use oarlock_meta::Status;

use crate::cache::{Cache, unchanged};
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;

/// Decodes and projects an object, or takes what the cache has where that is the same revision.
pub(super) fn known<T: Project>(cache: &Cache<T>, object: &Object) -> Result<Arc<Item<T>>, Status> {
    if cache.is_empty() {
        return cache.item(object);
    }
    let head = object.head()?;
    let key = Key::new(head.namespace, head.name);
    unchanged(cache, &key, &head.uid, object).map_or_else(|| cache.item(object), Ok)
}

/// The key of an object that is gone; its fields do not matter any more.
pub(super) fn key(object: &Object) -> Result<Key, Status> {
    let head = object.head()?;
    Ok(Key::new(head.namespace, head.name))
}
