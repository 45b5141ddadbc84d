//! A look at an object's metadata without building the object. What stands behind them is not looked at.

use std::borrow::Cow;
use std::fmt;

use oarlock_meta::{Revision, Status};
use oarlock_schema::Str;
use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};

/// What identifies an object.
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
    /// The revision; zero when there is none, or it is no number (no server since Kubernetes 1.35 sends one).
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.resource_version.parse().unwrap_or_default()
    }
}

#[derive(Deserialize, Default)]
struct Annotations<'a> {
    #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Metadata,
    #[serde(other)]
    Other,
}

/// Reads an object as far as its metadata, and fails on purpose when it has them.
struct Look<'b, 'a>(&'b mut Option<Metadata<'a>>);

impl<'a> Visitor<'a> for Look<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(field) = object.next_key::<Field>()? {
            match field {
                Field::Metadata => {
                    *self.0 = Some(object.next_value::<Option<Metadata<'a>>>()?.unwrap_or_default());
                    return Err(A::Error::custom("enough"));
                }
                Field::Other => _ = object.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

pub(crate) fn peek(bytes: &[u8]) -> Result<Head, Status> {
    let mut seen = None;
    let read = serde_json::Deserializer::from_slice(bytes).deserialize_map(Look(&mut seen));
    if let (Err(e), None) = (read, &seen) {
        return Err(Status::internal_error(format!("the object's metadata cannot be read: {e}")));
    }
    let meta = seen.unwrap_or_default();
    let text = |field: Option<Cow<'_, str>>| field.map_or_else(Str::default, Str::from);
    let end = meta.annotations.and_then(|a| a.initial_events_end).is_some_and(|value| value == "true");
    Ok(Head {
        name: text(meta.name),
        namespace: text(meta.namespace),
        uid: text(meta.uid),
        resource_version: text(meta.resource_version),
        initial_events_end: end,
    })
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
    }
}
