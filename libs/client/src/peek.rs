//! Reads an object's metadata from JSON without decoding the whole object.

use std::borrow::Cow;
use std::fmt;

use oarlock_meta::{Revision, Status};
use oarlock_schema::Str;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Identifying metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.namespace`, empty for cluster-scoped objects.
    pub namespace: Str,
    /// `metadata.uid`.
    pub uid: Str,
    /// `metadata.resourceVersion` as text.
    pub resource_version: Str,
    /// Whether `metadata.annotations` carries `k8s.io/initial-events-end: "true"` (the closing bookmark of KEP-3157).
    pub initial_events_end: bool,
}

impl Head {
    /// Returns the revision; zero when the field is absent or not a number (servers since Kubernetes 1.35 always send a number).
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.resource_version.parse().unwrap_or_default()
    }
}

/// The point at which reading stops. Servers write the long part of metadata last, so reading stops before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Revision,
    /// All fields that identify a namespaced object. For other objects and for bookmarks the metadata is read to its end.
    Identity,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
struct Annotations<'a> {
    #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Cow<'a, str>>,
}

/// Fields read so far.
#[derive(Default)]
struct Seen<'a> {
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    uid: Option<Text<'a>>,
    resource_version: Option<Text<'a>>,
    annotations: Option<Annotations<'a>>,
    enough: bool,
}

impl Seen<'_> {
    fn has(&self, until: Until) -> bool {
        let identity = self.name.is_some() && self.namespace.is_some() && self.uid.is_some();
        self.resource_version.is_some() && (until == Until::Revision || identity)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    Annotations,
    #[serde(other)]
    Other,
}

/// Deserializer that reads an object as far as necessary and then stops with a deliberate error.
struct HeadReader<'b, 'a> {
    seen: &'b mut Seen<'a>,
    until: Until,
    /// Whether the reader is inside the metadata.
    in_metadata: bool,
}

impl<'a> DeserializeSeed<'a> for HeadReader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'a> Visitor<'a> for HeadReader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { seen, until, in_metadata } = self;
        while let Some(field) = object.next_key::<Field>()? {
            match (field, in_metadata) {
                (Field::Metadata, false) => {
                    object.next_value_seed(HeadReader { seen: &mut *seen, until, in_metadata: true })?;
                    seen.enough = true;
                }
                (Field::Name, true) => seen.name = object.next_value()?,
                (Field::Namespace, true) => seen.namespace = object.next_value()?,
                (Field::Uid, true) => seen.uid = object.next_value()?,
                (Field::ResourceVersion, true) => seen.resource_version = object.next_value()?,
                (Field::Annotations, true) => seen.annotations = object.next_value()?,
                _ => _ = object.next_value::<IgnoredAny>()?,
            }
            seen.enough |= in_metadata && seen.has(until);
            if seen.enough {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

fn read_head(bytes: &[u8], until: Until) -> Result<Head, Status> {
    let mut seen = Seen::default();
    let read = serde_json::Deserializer::from_slice(bytes).deserialize_map(HeadReader {
        seen: &mut seen,
        until,
        in_metadata: false,
    });
    if let (Err(e), false) = (read, seen.enough) {
        return Err(Status::internal_error(format!("the object's metadata cannot be read: {e}")));
    }
    let text = |field: Option<Text<'_>>| field.map_or_else(Str::default, |text| Str::from(text.0));
    let end = seen.annotations.and_then(|a| a.initial_events_end).is_some_and(|value| value == "true");
    Ok(Head {
        name: text(seen.name),
        namespace: text(seen.namespace),
        uid: text(seen.uid),
        resource_version: text(seen.resource_version),
        initial_events_end: end,
    })
}

/// Reads an object's identity, or the content of a bookmark.
pub(crate) fn peek(bytes: &[u8]) -> Result<Head, Status> {
    read_head(bytes, Until::Identity)
}

/// Reads an object's revision, as [`Head::revision`].
pub(crate) fn revision(bytes: &[u8]) -> Result<Revision, Status> {
    Ok(read_head(bytes, Until::Revision)?.revision())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_identity_and_revision_and_nothing_else() {
        let head = peek(
            br#"{"spec":{"metadata":{"name":"no"}},"metadata":{"labels":{"a":"b"},"name":"n\u0061","namespace":"d","uid":"u","resourceVersion":"12"}}"#,
        )
        .unwrap();
        assert_eq!((head.name.as_str(), head.namespace.as_str(), head.uid.as_str()), ("na", "d", "u"));
        assert_eq!(head.revision(), Revision(12));
        assert!(!head.initial_events_end);
    }

    #[test]
    fn sees_the_closing_bookmark() {
        let bytes = br#"{"metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        assert!(peek(bytes).unwrap().initial_events_end);
    }

    #[test]
    fn refuses_what_is_no_object() {
        assert!(peek(b"[1]").is_err() && peek(b"{").is_err() && peek(br#"{"metadata":{"name":"a""#).is_err());
        assert!(peek(br#"{"spec":{},"metadata":{"name":1}}"#).is_err() && peek(br#"{"metadata":null}"#).is_ok());
        assert_eq!(peek(b"{}").unwrap(), Head::default());
        assert!(peek(br#"{"metadata":{"name":{}}}"#).is_err() && revision(br#"{"metadata":{"uid":"u""#).is_err());
    }

    #[test]
    fn reads_no_further_than_it_must_in_whatever_order() {
        // Invalid JSON stands for the long rest, which must not be read.
        let cut = br#"{"metadata":{"name":"n","resourceVersion":"12","uid":"u","namespace":"d","managedFields":!"#;
        let head = peek(cut).unwrap();
        assert_eq!((head.name.as_str(), head.namespace.as_str(), head.uid.as_str()), ("n", "d", "u"));
        assert_eq!((head.revision(), revision(cut).unwrap()), (Revision(12), Revision(12)));
        assert_eq!(revision(br#"{"metadata":{"resourceVersion":"7",!"#).unwrap(), Revision(7));
        assert!(
            peek(br#"{"metadata":{"name":"n","uid":"u","resourceVersion":"12",!"#).is_err(),
            "a namespace may come"
        );
        assert_eq!(revision(br#"{"metadata":{"name":"n"},!"#).unwrap(), Revision::ZERO);
    }
}
