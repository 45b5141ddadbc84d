//! The store's indexer: builds entries of the View from stored values.

use bytes::Bytes;
use oarlock_meta::Revision;
use oarlock_schema::{Obj, Resource};
use oarlock_storage::Key;
use oarlock_store::{Entry, EntryParts, Indexer};

use crate::index::{PROTOBUF, decode, parts_of_stored, stored_resource};
use crate::{older, stored};

/// Builds index entries from stored values, for the View's initial load and for new log records. Values that upstream wrote are converted to this
/// server's form.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredIndexer;

impl Indexer for StoredIndexer {
    fn entry(&self, key: &Key, value: &Bytes, revision: Revision) -> Entry {
        let foreign = |decoded: Result<Obj, oarlock_codec::DecodeError>, resource: &'static Resource| match decoded {
            Ok(mut obj) => {
                // As upstream does on reads: the stored version may be an older one (v1beta1), without fields that have defaults since.
                obj.set_gvk(resource.gvk());
                oarlock_apis::default(&mut obj);
                let stored::Encoded { value, parts } = stored::encode(key, &mut obj);
                Some(Entry::new(key.clone(), &value, revision, parts))
            }
            Err(error) => {
                tracing::error!(%key, %error, "a stored object does not decode; it can be deleted but not read");
                None
            }
        };
        if let Some(resource) = stored_resource(key.resource()) {
            let entry = if value.starts_with(PROTOBUF) {
                foreign(decode(value, resource.ty), resource)
            } else if let Some(value) = older::renewed(resource, value) {
                foreign(decode(&value, resource.ty), resource)
            } else {
                None
            };
            if let Some(entry) = entry {
                return entry;
            }
        }
        Entry::new(key.clone(), value, revision, self.parts(key, value))
    }

    fn parts(&self, key: &Key, value: &Bytes) -> EntryParts {
        parts_of_stored(key, value)
    }
}
