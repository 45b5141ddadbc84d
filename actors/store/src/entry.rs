//! Entries: one object as the View keeps it, as encoded bytes plus the fields that reads filter by.
//!
//! The log stores canonical JSON without `resourceVersion`, because the revision is known only after the write is durable. The View inserts the
//! revision once; every list, get and watch then returns the same bytes.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use compact_str::CompactString;
use oarlock_meta::Revision;
use oarlock_storage::Key;

const OPEN: &[u8] = b"\"resourceVersion\":\"";
const CLOSE: &[u8] = b"\",";

/// An object's encoded bytes, canonical JSON with `resourceVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes are in memory.
    Ready(Bytes),
    /// The bytes are not in memory.
    Cold {
        /// The revision of the write whose value the log has.
        at: Revision,
        /// The length of the bytes once loaded. Fits into the space of [`Bytes`].
        length: u32,
    },
}

/// The values of a kind's selectable fields. All entries of the kind share the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    names: Option<Arc<[CompactString]>>,
    values: Box<[CompactString]>,
}

impl Fields {
    /// Pairs names (`spec.nodeName`) with values by position; a name without a value is empty.
    #[must_use]
    pub fn new(names: Arc<[CompactString]>, values: Vec<CompactString>) -> Self {
        Self { names: Some(names), values: values.into() }
    }

    /// Returns the value of a field; `None` when the kind has no such selectable field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.names.as_ref()?.iter().position(|n| n == name)?;
        Some(self.values.get(at).map_or("", CompactString::as_str))
    }

    /// Iterates over all fields, in the kind's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.as_deref().unwrap_or(&[]);
        names.iter().zip(self.values.iter()).map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The parts of an entry that a write or an [`Indexer`] extracts from a value, so that the View parses nothing.
#[derive(Clone, Debug, Default)]
pub struct EntryParts {
    /// The byte offset inside the value, in `metadata` before a further member, at which `"resourceVersion":"N",` is inserted; `None` leaves the
    /// bytes unchanged.
    pub splice: Option<u32>,
    /// `metadata.uid`.
    pub uid: CompactString,
    /// `metadata.labels`, sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// The kind's selectable fields without `metadata.name` and `metadata.namespace`, which the key contains.
    pub fields: Fields,
    /// The uids in `metadata.ownerReferences`.
    pub owners: Box<[CompactString]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deletion: bool,
}

/// Builds entries from stored values; implemented by the layer that knows the kinds.
pub trait Indexer: Send + Sync + 'static {
    /// Extracts the parts of a stored value. A value that cannot be parsed has no parts ([`EntryParts::default`]).
    fn parts(&self, key: &Key, value: &Bytes) -> EntryParts;

    /// Builds the entry of a stored value.
    fn entry(&self, key: &Key, value: &Bytes, revision: Revision) -> Entry {
        Entry::new(key.clone(), value, revision, self.parts(key, value))
    }
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The object's key.
    pub key: Key,
    /// The object's `resourceVersion`.
    pub revision: Revision,
    /// The encoded object.
    pub body: Body,
    /// `metadata.uid`.
    pub uid: CompactString,
    /// `metadata.labels`, sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// The kind's selectable fields.
    pub fields: Fields,
    /// The uids in `metadata.ownerReferences`.
    pub owners: Box<[CompactString]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deletion: bool,
    splice: Option<u32>,
}

impl Entry {
    /// Builds an entry from a stored value by inserting the revision.
    #[must_use]
    pub fn new(key: Key, value: &Bytes, revision: Revision, parts: EntryParts) -> Self {
        let EntryParts { splice, uid, labels, fields, owners, deletion } = parts;
        let at = splice.and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= value.len());
        let bytes = at.map_or_else(|| value.clone(), |at| spliced(value, at, at, revision));
        let splice = at.and(splice);
        Self { key, revision, body: Body::Ready(bytes), uid, labels, fields, owners, deletion, splice }
    }

    /// Returns the same object under another revision, as a DELETED event carries it.
    #[must_use]
    pub fn at_revision(&self, revision: Revision) -> Self {
        let mut entry = self.clone();
        if let (Body::Ready(bytes), Some(at)) = (&self.body, self.splice.and_then(|at| usize::try_from(at).ok())) {
            let skip = OPEN.len() + itoa::Buffer::new().format(self.revision.get()).len() + CLOSE.len();
            entry.body = Body::Ready(spliced(bytes, at, at + skip, revision));
        }
        entry.revision = revision;
        entry
    }

    /// Returns this entry without its bytes, and the stored value of the bytes; `None` when it has none.
    pub(crate) fn chilled(&self) -> Option<(Self, Bytes)> {
        let value = self.value()?;
        let Self { key, revision, uid, labels, fields, owners, deletion, splice, .. } = self.clone();
        let body = Body::Cold { at: revision, length: u32::try_from(self.length()).unwrap_or(u32::MAX) };
        Some((Self { key, revision, body, uid, labels, fields, owners, deletion, splice }, value))
    }

    /// Returns this entry with the bytes of its stored value.
    pub(crate) fn thawed(&self, value: &Bytes) -> Self {
        let at = self.splice.and_then(|at| usize::try_from(at).ok());
        let bytes = at.map_or_else(|| value.clone(), |at| spliced(value, at, at, self.revision));
        Self { body: Body::Ready(bytes), ..self.clone() }
    }

    /// Returns the namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    /// Returns the object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Returns the encoded object with `resourceVersion`; `None` while it is cold ([`crate::View::ready`]).
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Ready(bytes) => Some(bytes),
            Body::Cold { .. } => None,
        }
    }

    /// Returns the length of the encoded object, also while it is cold.
    #[must_use]
    pub fn length(&self) -> usize {
        match &self.body {
            Body::Ready(bytes) => bytes.len(),
            Body::Cold { length, .. } => usize::try_from(*length).unwrap_or(usize::MAX),
        }
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a selectable field, including `metadata.name` and `metadata.namespace`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.fields.get(name),
        }
    }

    /// Returns the stored value: the object without `resourceVersion`; `None` while it is cold.
    #[must_use]
    pub fn value(&self) -> Option<Bytes> {
        let bytes = self.bytes()?;
        let Some(at) = self.splice.and_then(|at| usize::try_from(at).ok()) else { return Some(bytes.clone()) };
        let resume = at + OPEN.len() + itoa::Buffer::new().format(self.revision.get()).len() + CLOSE.len();
        Some([bytes.get(..at)?, bytes.get(resume..)?].concat().into())
    }

    /// Returns the bytes that a version of this size takes in a watch window.
    pub(crate) fn cost(&self) -> usize {
        self.bytes().map_or(0, Bytes::len) + self.key.as_str().len() + size_of::<Self>()
    }
}

/// Returns `value` with `value[cut..resume]` replaced by the revision's member. Allocated to the exact size, because entries are long-lived.
fn spliced(value: &[u8], cut: usize, resume: usize, revision: Revision) -> Bytes {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision.get()).as_bytes();
    let head = value.get(..cut).unwrap_or(value);
    let tail = value.get(resume..).unwrap_or(&[]);
    let mut out = BytesMut::with_capacity(head.len() + OPEN.len() + digits.len() + CLOSE.len() + tail.len());
    for part in [head, OPEN, digits, CLOSE, tail] {
        out.put_slice(part);
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(json: &'static str, at: u32, revision: u64) -> Entry {
        let parts = EntryParts { splice: Some(at), ..EntryParts::default() };
        Entry::new(Key::namespaced("/registry/pods/", "a", "b"), &Bytes::from(json), Revision(revision), parts)
    }

    #[test]
    fn splices_the_revision_where_the_writer_said() {
        let entry = entry(r#"{"metadata":{"name":"b","uid":"u"}}"#, 22 + 2, 7);
        assert_eq!(
            entry.bytes().unwrap(),
            &Bytes::from(r#"{"metadata":{"name":"b","resourceVersion":"7","uid":"u"}}"#)
        );
    }

    #[test]
    fn replaces_the_revision_of_a_deleted_object() {
        let entry = entry(r#"{"metadata":{"name":"b","uid":"u"}}"#, 24, 999).at_revision(Revision(1000));
        assert_eq!(
            entry.bytes().unwrap(),
            &Bytes::from(r#"{"metadata":{"name":"b","resourceVersion":"1000","uid":"u"}}"#)
        );
        assert_eq!(entry.revision, Revision(1000));
    }

    #[test]
    fn gives_the_value_back() {
        let json = r#"{"metadata":{"name":"b","uid":"u"}}"#;
        assert_eq!(entry(json, 24, 12345).value(), Some(Bytes::from(json)));
        assert_eq!(entry("{}", 99, 7).value(), Some(Bytes::from("{}")));
    }

    #[test]
    fn a_cold_entry_still_knows_how_long_it_is_at_no_cost() {
        let warm = entry(r#"{"metadata":{"name":"b","uid":"u"}}"#, 24, 7);
        let (cold, value) = warm.chilled().unwrap();
        assert_eq!((cold.bytes(), cold.length()), (None, warm.bytes().unwrap().len()));
        assert_eq!(cold.thawed(&value).length(), warm.length());
        assert_eq!(size_of::<Body>(), size_of::<Bytes>());
    }

    #[test]
    fn leaves_bytes_alone_when_the_offset_is_outside() {
        let entry = entry("{}", 99, 7);
        assert_eq!(entry.bytes().unwrap(), &Bytes::from("{}"));
        assert_eq!(entry.at_revision(Revision(8)).bytes().unwrap(), &Bytes::from("{}"));
    }

    #[test]
    fn finds_labels_and_fields_by_name() {
        let names: Arc<[CompactString]> = ["spec.nodeName".into(), "status.phase".into()].into();
        let parts = EntryParts {
            labels: [("app".into(), "web".into()), ("tier".into(), "front".into())].into(),
            fields: Fields::new(names, vec!["n1".into()]),
            ..EntryParts::default()
        };
        let entry = Entry::new(Key::namespaced("/registry/pods/", "a", "b"), &Bytes::new(), Revision(1), parts);
        assert_eq!((entry.label("tier"), entry.label("x")), (Some("front"), None));
        assert_eq!(entry.field("spec.nodeName"), Some("n1"));
        assert_eq!(entry.field("status.phase"), Some(""));
        assert_eq!(entry.field("metadata.name"), Some("b"));
        assert_eq!(entry.field("spec.other"), None);
    }
}
