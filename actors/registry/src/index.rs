//! What reads decide on, taken from an object once, when it is written or loaded: labels, selectable fields, owners.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::older;
use bytes::Bytes;
use compact_str::CompactString;
use oarlock_codec::Wanted;
use oarlock_meta::Revision;
use oarlock_schema::{Obj, RESOURCES, Resource, TypeRef, Value};
use oarlock_storage::Key;
use oarlock_store::{Entry, EntryParts, Fields, Indexer};

/// Field labels whose place is not their name, as (resource, label, path).
const RENAMED: &[(&str, &str, &[&str])] = &[
    ("events", "source", &["source", "component"]),
    ("events", "reportingComponent", &["reportingComponent"]),
    ("certificatesigningrequests", "spec.signerName", &["spec", "signerName"]),
];

struct Row {
    resource: &'static Resource,
    /// Labels without `metadata.name` and `metadata.namespace`, which the key tells.
    names: Arc<[CompactString]>,
    paths: Vec<Vec<&'static str>>,
    /// What [`parts`] looks at.
    wanted: Wanted,
}

/// What it looks at in objects of every kind.
const METADATA: [&[&str]; 4] = [
    &["metadata", "uid"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    &["metadata", "deletionTimestamp"],
];

type Rows = HashMap<&'static str, Row, foldhash::fast::FixedState>;

/// By key prefix; the row in whose form the objects are stored. Where one prefix serves several rows (events, autoscalers) the schema data's
/// storage version and group decide; a prefix with one row is stored as that row has it.
static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let mut rows = Rows::default();
    for resource in RESOURCES {
        let Some(prefix) = crate::key::prefix(resource) else { continue };
        if !rows.contains_key(prefix) || is_stored_form(resource) {
            rows.insert(prefix, row(resource));
        }
    }
    rows
});

fn is_stored_form(resource: &Resource) -> bool {
    resource.storage.is_some_and(|s| s.version == resource.version) && resource.group != "events.k8s.io"
}

fn row(resource: &'static Resource) -> Row {
    let labels =
        || resource.selectable.iter().copied().filter(|l| !matches!(*l, "metadata.name" | "metadata.namespace"));
    let paths: Vec<_> = labels().map(|l| path(resource, l)).collect();
    let wanted = Wanted::at(paths.iter().map(Vec::as_slice).chain(METADATA));
    Row { resource, names: labels().map(CompactString::new).collect(), paths, wanted }
}

fn path(resource: &Resource, label: &'static str) -> Vec<&'static str> {
    let renamed = RENAMED.iter().find(|(plural, name, _)| *plural == resource.plural && *name == label);
    renamed.map_or_else(|| label.split('.').collect(), |(_, _, path)| path.to_vec())
}

/// The resource row whose objects are stored under a key, in their stored version.
#[must_use]
pub fn stored_resource(key_prefix: &str) -> Option<&'static Resource> {
    ROWS.get(key_prefix).map(|row| row.resource)
}

/// The type in which a resource's objects are stored.
#[must_use]
pub fn stored_type(resource: &Resource) -> TypeRef {
    crate::key::prefix(resource).and_then(stored_resource).map_or(resource.ty, |r| r.ty)
}

/// Decodes stored bytes, ours or upstream's.
///
/// # Errors
/// When they are no object of that type.
pub fn decode(bytes: &[u8], ty: TypeRef) -> Result<Obj, oarlock_codec::DecodeError> {
    if bytes.starts_with(PROTOBUF) {
        return oarlock_codec::protobuf::decode(bytes, ty).map(|decoded| decoded.value);
    }
    oarlock_codec::json::decode(bytes, ty, oarlock_codec::Mode::Lenient).map(|decoded| decoded.value)
}

/// The parts of an object in its stored version. `splice` is where the encoder left room for `resourceVersion`.
#[must_use]
pub fn parts(key: &Key, obj: &Obj, splice: Option<usize>) -> EntryParts {
    let meta = obj.meta();
    let fields = ROWS.get(key.resource()).map_or_else(Fields::default, |row| {
        Fields::new(row.names.clone(), row.paths.iter().map(|path| text(obj.at(path))).collect())
    });
    EntryParts {
        splice: splice.and_then(|at| u32::try_from(at).ok()),
        uid: meta.uid().into(),
        labels: meta.labels().iter().map(|(k, v)| (k.into(), v.into())).collect(),
        fields,
        owners: meta.owner_references().iter().map(|o| o.uid().into()).collect(),
        deletion: meta.deletion_timestamp().is_some_and(|t| !t.is_empty()),
    }
}

fn text(value: Option<&Value>) -> CompactString {
    match value {
        Some(Value::Str(s)) => s.clone(),
        Some(Value::Bool(b)) => CompactString::const_new(if *b { "true" } else { "false" }),
        Some(Value::Int(n)) => compact_str::format_compact!("{n}"),
        _ => CompactString::default(),
    }
}

/// How upstream marks a value that is kept as protobuf.
const PROTOBUF: &[u8] = b"k8s\0";

/// Makes entries of stored values, for the View's load and tail. What upstream has written becomes what we would have.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredIndexer;

impl Indexer for StoredIndexer {
    fn entry(&self, key: &Key, value: &Bytes, revision: Revision) -> Entry {
        let foreign = |decoded: Result<Obj, oarlock_codec::DecodeError>, resource: &'static Resource| match decoded {
            Ok(mut obj) => {
                // As upstream does when it reads: the stored version may be another (v1beta1), and lack what is default by now.
                obj.set_gvk(resource.gvk());
                oarlock_apis::default(&mut obj);
                let crate::stored::Encoded { value, parts } = crate::stored::encode(key, &mut obj);
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
        let Some(row) = ROWS.get(key.resource()) else { return EntryParts::default() };
        match oarlock_codec::json::decode_wanted(value, row.resource.ty, &row.wanted) {
            Ok(obj) => parts(key, &obj, oarlock_codec::json::splice_offset(value)),
            Err(error) => {
                tracing::error!(%key, %error, "a stored object does not decode; it can be deleted but not read");
                EntryParts::default()
            }
        }
    }
}
