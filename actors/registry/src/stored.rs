//! The stored form of objects: canonical JSON of the stored version, without resourceVersion.

use bytes::Bytes;
use oarlock_schema::{Obj, canonical};
use oarlock_storage::Key;
use oarlock_store::EntryParts;

use crate::index;

/// An object in its stored form, with its index entry.
#[derive(Debug)]
pub struct Encoded {
    /// Canonical JSON without resourceVersion.
    pub value: Bytes,
    /// Labels, fields, owners, splice point.
    pub parts: EntryParts,
}

/// Encodes an object of the stored version; `obj` becomes canonical and loses its resourceVersion.
#[must_use]
pub fn encode(key: &Key, obj: &mut Obj) -> Encoded {
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_resource_version();
    }
    canonical::canonicalize(obj);
    let encoded = oarlock_codec::json::encode(obj);
    let parts = index::parts(key, obj, encoded.splice);
    Encoded { value: encoded.bytes.into(), parts }
}
