//! Index entries: the labels, selectable fields and owners that reads filter by, taken from an object once, when it is written or loaded.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use compact_str::CompactString;
use oarlock_codec::Wanted;
use oarlock_schema::{Obj, RESOURCES, Resource, Shape, TypeRef, Value};
use oarlock_storage::Key;
use oarlock_store::{EntryParts, Fields};

use crate::field_path::FieldPath;

/// Field labels whose path differs from their name, as (resource, label, path).
const RENAMED: &[(&str, &str, &[&str])] = &[
    ("events", "source", &["source", "component"]),
    ("events", "reportingComponent", &["reportingComponent"]),
    ("certificatesigningrequests", "spec.signerName", &["spec", "signerName"]),
    ("jobs", "status.successful", &["status", "succeeded"]),
    // The former name of the field (upstream's `AddFieldLabelConversionsForPod`).
    ("pods", "spec.host", &["spec", "nodeName"]),
];

/// Field labels that fall back to another field when the first one is empty, as (resource, label, path of the other field).
const FALLBACKS: &[(&str, &str, &[&str])] = &[("events", "source", &["reportingComponent"])];

struct Row {
    resource: &'static Resource,
    /// The selectable field labels, without `metadata.name` and `metadata.namespace`, which the key contains.
    names: Arc<[CompactString]>,
    places: Vec<Place>,
    /// The fields that [`parts`] reads.
    wanted: Wanted,
}

/// The path of a selectable field, its fallback when empty, and its value when absent.
struct Place {
    path: FieldPath,
    or: Option<FieldPath>,
    absent: &'static str,
}

/// The metadata fields that are read from objects of every kind.
const INDEXED_METADATA: [&[&str]; 4] = [
    &["metadata", "uid"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    &["metadata", "deletionTimestamp"],
];

type Rows = HashMap<&'static str, Row, foldhash::fast::FixedState>;

/// By key prefix, the resource in whose form the objects are stored. Where one prefix serves several resources (events, autoscalers) the storage
/// version and group of the schema data decide.
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
    let places: Vec<_> = labels().map(|l| place(resource, l)).collect();
    let paths: BTreeSet<&[&str]> = places
        .iter()
        .flat_map(|place| std::iter::once(&place.path).chain(&place.or))
        .map(|path| path.names())
        .chain(INDEXED_METADATA)
        .collect();
    let wanted = Wanted::at(paths);
    Row { resource, names: labels().map(CompactString::new).collect(), places, wanted }
}

fn place(resource: &Resource, label: &'static str) -> Place {
    let path = FieldPath::new(resource.ty, path(resource, label));
    // Go's zero values, as upstream prints them.
    let absent = match path.def().map(|def| &def.shape) {
        Some(Shape::Bool) => "false",
        Some(Shape::Int32 | Shape::Int64) => "0",
        _ => "",
    };
    let or = FALLBACKS.iter().find(|(plural, name, _)| *plural == resource.plural && *name == label);
    Place { path, or: or.map(|(.., path)| FieldPath::new(resource.ty, path.to_vec())), absent }
}

/// Returns the name under which index entries hold a field label. Events of events.k8s.io are stored in the form of core/v1, so their labels are
/// those of core/v1 (upstream `AddFieldLabelConversionsForEvent`).
#[must_use]
pub fn stored_label<'a>(resource: &Resource, label: &'a str) -> std::borrow::Cow<'a, str> {
    match (resource.group, label, label.strip_prefix("regarding.")) {
        ("events.k8s.io", "reportingController", _) => "reportingComponent".into(),
        ("events.k8s.io", _, Some(field)) => format!("involvedObject.{field}").into(),
        _ => label.into(),
    }
}

fn path(resource: &Resource, label: &'static str) -> Vec<&'static str> {
    let renamed = RENAMED.iter().find(|(plural, name, _)| *plural == resource.plural && *name == label);
    renamed.map_or_else(|| label.split('.').collect(), |(_, _, path)| path.to_vec())
}

/// Returns the resource whose objects are stored under a key prefix, in its stored version.
#[must_use]
pub fn stored_resource(key_prefix: &str) -> Option<&'static Resource> {
    ROWS.get(key_prefix).map(|row| row.resource)
}

/// Returns the type in which a resource's objects are stored.
#[must_use]
pub fn stored_type(resource: &Resource) -> TypeRef {
    crate::key::prefix(resource).and_then(stored_resource).map_or(resource.ty, |r| r.ty)
}

/// The prefix with which upstream marks a value stored as protobuf.
pub(crate) const PROTOBUF: &[u8] = b"k8s\0";

/// Decodes stored bytes, written by this server or by upstream's.
///
/// # Errors
/// When the bytes are no object of that type.
pub fn decode(bytes: &[u8], ty: TypeRef) -> Result<Obj, oarlock_codec::DecodeError> {
    if bytes.starts_with(PROTOBUF) {
        return oarlock_codec::protobuf::decode(bytes, ty).map(|decoded| decoded.value);
    }
    oarlock_codec::json::decode(bytes, ty, oarlock_codec::Mode::Lenient).map(|decoded| decoded.value)
}

/// Returns the index entry of an object in its stored version. `splice` is where the encoder left room for `resourceVersion`.
#[must_use]
pub fn parts(key: &Key, obj: &Obj, splice: Option<usize>) -> EntryParts {
    let meta = obj.meta();
    let fields = ROWS.get(key.resource()).map_or_else(Fields::default, |row| {
        Fields::new(row.names.clone(), row.places.iter().map(|place| place.read(obj)).collect())
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

impl Place {
    fn read(&self, obj: &Obj) -> CompactString {
        let value = text(self.path.read(obj), self.absent);
        match &self.or {
            Some(path) if value.is_empty() => text(path.read(obj), self.absent),
            _ => value,
        }
    }
}

fn text(value: Option<&Value>, absent: &'static str) -> CompactString {
    match value {
        Some(Value::Str(s)) => s.clone(),
        Some(Value::Bool(b)) => CompactString::const_new(if *b { "true" } else { "false" }),
        Some(Value::Int(n)) => compact_str::format_compact!("{n}"),
        _ => CompactString::const_new(absent),
    }
}

/// Returns the index entry of stored bytes; an empty one, with an error in the log, for bytes that do not decode.
#[must_use]
pub fn parts_of_stored(key: &Key, value: &Bytes) -> EntryParts {
    let Some(row) = ROWS.get(key.resource()) else { return EntryParts::default() };
    match oarlock_codec::json::decode_wanted(value, row.resource.ty, &row.wanted) {
        Ok(obj) => parts(key, &obj, oarlock_codec::json::splice_offset(value)),
        Err(error) => {
            tracing::error!(%key, %error, "a stored object does not decode; it can be deleted but not read");
            EntryParts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object of a resource with a value in every field that is indexed.
    fn full(row: &Row) -> Obj {
        let json = r#"{"metadata":{"name":"n","uid":"u","labels":{"a":"b"},"deletionTimestamp":"2026-01-02T03:04:05Z",
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"owner"}]}}"#;
        let mut obj = decode(json.as_bytes(), row.resource.ty).unwrap();
        for Place { path, .. } in &row.places {
            let path = path.names();
            let values = [Value::from("x"), Value::Bool(true), Value::Int(1)];
            let fits = |value: &Value| {
                let mut obj = obj.clone();
                let set = obj.set_at(path, value.clone());
                set && decode(&oarlock_codec::json::encode(&obj).bytes, row.resource.ty).is_ok()
            };
            match values.into_iter().find(fits) {
                Some(value) => assert!(obj.set_at(path, value)),
                // Upstream accepts this label in selectors, but never fills the field.
                None => assert_eq!(path[..], ["status", "podIPs"]),
            }
        }
        obj
    }

    #[test]
    fn what_an_object_lacks_reads_as_gos_zero() {
        for (prefix, label, read) in [
            ("/registry/minions/", "spec.unschedulable", "false"),
            ("/registry/pods/", "spec.hostNetwork", "false"),
            ("/registry/pods/", "spec.host", ""),
            ("/registry/jobs/", "status.successful", "0"),
        ] {
            let row = &ROWS[prefix];
            let obj = decode(br#"{"metadata":{"name":"n"}}"#, row.resource.ty).unwrap();
            let key = Key::cluster(prefix, "n");
            assert_eq!(parts(&key, &obj, None).fields.get(label), Some(read), "{label}");
        }
    }

    /// Sets a field through the resource's type, stores it in the stored form, and finds it under the label of the selector.
    #[test]
    fn every_label_finds_what_is_set_through_every_group() {
        let mut seen = Vec::new();
        for resource in RESOURCES.iter().filter(|resource| crate::key::prefix(resource).is_some()) {
            let kind = crate::table::kind(resource);
            let labels =
                || resource.selectable.iter().filter(|l| !matches!(**l, "metadata.name" | "metadata.namespace"));
            for label in labels().filter(|label| **label != "status.podIPs") {
                let path = path(resource, label);
                let json = br#"{"metadata":{"name":"n","namespace":"a"}}"#;
                let mut obj = decode(json, resource.ty).unwrap();
                let values = [(Value::from("x"), "x"), (Value::Bool(true), "true"), (Value::Int(1), "1")];
                let fits = |(value, _): &(Value, &str)| {
                    let mut obj = obj.clone();
                    obj.set_at(&path, value.clone())
                        && decode(&oarlock_codec::json::encode(&obj).bytes, resource.ty).is_ok()
                };
                let (value, shown) = values.into_iter().find(fits).unwrap();
                assert!(obj.set_at(&path, value));
                let stored = kind.strategy.convert(&obj, stored_type(resource)).unwrap();
                let prefix = crate::key::prefix(resource).unwrap();
                let parts = parts(&Key::namespaced(prefix, "a", "n"), &stored, None);
                let found = parts.fields.get(&stored_label(resource, label)).map(str::to_owned);
                assert_eq!(found.as_deref(), Some(shown), "{}/{} {label}", resource.group, resource.plural);
                seen.push((resource.group, *label));
            }
        }
        for row in [("events.k8s.io", "reportingController"), ("events.k8s.io", "regarding.fieldPath"), ("", "source")]
        {
            assert!(seen.contains(&row), "{row:?}");
        }
    }

    #[test]
    fn an_event_without_a_source_is_from_who_reports_it() {
        let row = &ROWS["/registry/events/"];
        let read = |json: &str| {
            let obj = decode(json.as_bytes(), row.resource.ty).unwrap();
            let encoded = oarlock_codec::json::encode(&obj);
            let key = Key::namespaced("/registry/events/", "a", "n");
            let loaded = parts_of_stored(&key, &encoded.bytes.into());
            assert_eq!(parts(&key, &obj, None).fields, loaded.fields);
            loaded.fields.get("source").map(str::to_owned)
        };
        let reported = r#"{"metadata":{"name":"n"},"reportingComponent":"r"}"#;
        assert_eq!(read(reported).as_deref(), Some("r"));
        let both = r#"{"metadata":{"name":"n"},"reportingComponent":"r","source":{"component":"s"}}"#;
        assert_eq!(read(both).as_deref(), Some("s"));
    }

    #[test]
    fn what_is_loaded_has_the_parts_that_were_written() {
        for (prefix, row) in ROWS.iter() {
            let (obj, key) = (full(row), Key::namespaced(prefix, "a", "n"));
            let encoded = oarlock_codec::json::encode(&obj);
            let written = parts(&key, &obj, encoded.splice);
            assert_eq!((written.uid.as_str(), written.labels.len(), written.owners.len()), ("u", 1, 1), "{prefix}");
            let is_set = |(name, value): (&str, &str)| !value.is_empty() || name == "status.podIPs";
            assert!(written.deletion && written.fields.iter().all(is_set), "{written:?}");
            let loaded = parts_of_stored(&key, &encoded.bytes.into());
            assert_eq!(format!("{loaded:?}"), format!("{written:?}"));
        }
    }
}
