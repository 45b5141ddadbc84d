//! Entries: one object as the View keeps it, encoded bytes plus the little that reads decide on.
//!
//! The log stores canonical JSON without `resourceVersion`, because the revision is known only once the write is
//! durable. The View splices it in once, here; every list, get and watch then hands out the same bytes.

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
    /// In memory.
    Ready(Bytes),
    /// Not in the View.
    Cold {
        /// The log has the value, as it was written at this revision.
        at: Revision,
        /// How many bytes there are when they are in memory. It has room where [`Bytes`] would be.
        length: u32,
    },
}

/// The values of a kind's selectable fields. The names are shared by every entry of the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    names: Option<Arc<[CompactString]>>,
    values: Box<[CompactString]>,
}

impl Fields {
    /// Pairs names (`spec.nodeName`) with values by position; a name without a value reads as empty.
    #[must_use]
    pub fn new(names: Arc<[CompactString]>, values: Vec<CompactString>) -> Self {
        Self { names: Some(names), values: values.into() }
    }

    /// The value of the field with this name; `None` when the kind has no such selectable field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.names.as_ref()?.iter().position(|n| n == name)?;
        Some(self.values.get(at).map_or("", CompactString::as_str))
    }

    /// Every field, in the kind's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.as_deref().unwrap_or(&[]);
        names.iter().zip(self.values.iter()).map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What a write or an [`Indexer`] knows about a value, so that the View parses nothing.
#[derive(Clone, Debug, Default)]
pub struct EntryParts {
    /// The byte offset inside the value, in `metadata` before a further member, at which `"resourceVersion":"N",`
    /// goes; `None` leaves the bytes as they are.
    pub splice: Option<u32>,
    /// `metadata.uid`.
    pub uid: CompactString,
    /// `metadata.labels`, sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// The kind's selectable fields without `metadata.name` and `metadata.namespace`, which the key tells.
    pub fields: Fields,
    /// The uids in `metadata.ownerReferences`.
    pub owners: Box<[CompactString]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deletion: bool,
}

/// How entries are made from stored values; given by the layer that knows the kinds.
pub trait Indexer: Send + Sync + 'static {
    /// Finds the parts of a stored value. A value it cannot read has no parts ([`EntryParts::default`]).
    fn parts(&self, key: &Key, value: &Bytes) -> EntryParts;

    /// The entry of a stored value.
    fn entry(&self, key: &Key, value: &Bytes, revision: Revision) -> Entry {
        Entry::new(key.clone(), value, revision, self.parts(key, value))
    }
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it lives.
    pub key: Key,
    /// Its `resourceVersion`.
    pub revision: Revision,
    /// Its bytes.
    pub body: Body,
    /// `metadata.uid`.
    pub uid: CompactString,
    /// `metadata.labels`, sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// Its selectable fields.
    pub fields: Fields,
    /// The uids in `metadata.ownerReferences`.
    pub owners: Box<[CompactString]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deletion: bool,
    splice: Option<u32>,
}

impl Entry {
    /// Makes an entry from a stored value, splicing the revision in.
    #[must_use]
    pub fn new(key: Key, value: &Bytes, revision: Revision, parts: EntryParts) -> Self {
        let EntryParts { splice, uid, labels, fields, owners, deletion } = parts;
        let at = splice.and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= value.len());
        let bytes = at.map_or_else(|| value.clone(), |at| spliced(value, at, at, revision));
        let splice = at.and(splice);
        Self { key, revision, body: Body::Ready(bytes), uid, labels, fields, owners, deletion, splice }
    }

    /// The same object under another revision: what a DELETED event carries.
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

    /// This entry without its bytes, and the value they were made of; `None` when it has none.
    pub(crate) fn chilled(&self) -> Option<(Self, Bytes)> {
        let value = self.value()?;
        let Self { key, revision, uid, labels, fields, owners, deletion, splice, .. } = self.clone();
        let body = Body::Cold { at: revision, length: u32::try_from(self.length()).unwrap_or(u32::MAX) };
        Some((Self { key, revision, body, uid, labels, fields, owners, deletion, splice }, value))
    }

    /// This entry with the bytes that are made of its stored value.
    pub(crate) fn thawed(&self, value: &Bytes) -> Self {
        let at = self.splice.and_then(|at| usize::try_from(at).ok());
        let bytes = at.map_or_else(|| value.clone(), |at| spliced(value, at, at, self.revision));
        Self { body: Body::Ready(bytes), ..self.clone() }
    }

    /// The namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The encoded object with `resourceVersion`; `None` while it is cold ([`crate::View::ready`]).
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Ready(bytes) => Some(bytes),
            Body::Cold { .. } => None,
        }
    }

    /// How long the encoded object is, also while it is cold.
    #[must_use]
    pub fn length(&self) -> usize {
        match &self.body {
            Body::Ready(bytes) => bytes.len(),
            Body::Cold { length, .. } => usize::try_from(*length).unwrap_or(usize::MAX),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }

    /// The value of a selectable field, `metadata.name` and `metadata.namespace` included.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.fields.get(name),
        }
    }

    /// The value that is kept: the object without `resourceVersion`; `None` while it is cold.
    #[must_use]
    pub fn value(&self) -> Option<Bytes> {
        let bytes = self.bytes()?;
        let Some(at) = self.splice.and_then(|at| usize::try_from(at).ok()) else { return Some(bytes.clone()) };
        let resume = at + OPEN.len() + itoa::Buffer::new().format(self.revision.get()).len() + CLOSE.len();
        Some([bytes.get(..at)?, bytes.get(resume..)?].concat().into())
    }

    /// What a version of this size costs while a watch window keeps it, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.bytes().map_or(0, Bytes::len) + self.key.as_str().len() + size_of::<Self>()
    }
}

/// `value` with `value[cut..resume]` replaced by the revision's member. Allocated to the exact size: entries live long.
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
