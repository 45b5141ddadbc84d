//! API objects as shared bytes.

use bytes::Bytes;
use oarlock_codec::Wanted;
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Str, TypeRef};

use crate::peek::{Head, peek, revision};
use crate::wire;

/// One API object in its JSON form. Cloning shares the bytes.
#[derive(Clone)]
pub struct Object {
    /// JSON with `metadata.resourceVersion`; items of a list may lack `kind` and `apiVersion`, as upstream's.
    pub bytes: Bytes,
    /// The object's resourceVersion; zero for an object without one (such as the Scale in an answer).
    pub revision: Revision,
    /// Type of the object.
    pub ty: TypeRef,
}

impl Object {
    /// Builds an object from its parts, without checks.
    #[must_use]
    pub const fn new(ty: TypeRef, bytes: Bytes, revision: Revision) -> Self {
        Self { bytes, revision, ty }
    }

    /// Builds an object from JSON bytes and reads its revision from them.
    ///
    /// # Errors
    /// 500 when the bytes are not an object with well-formed metadata.
    pub fn from_json(ty: TypeRef, bytes: Bytes) -> Result<Self, Status> {
        let revision = revision(&bytes)?;
        Ok(Self { bytes, revision, ty })
    }

    /// Decodes the object; `kind` and `apiVersion` are filled in where the bytes lack them.
    ///
    /// # Errors
    /// 500 when the bytes do not fit the type.
    pub fn obj(&self) -> Result<Obj, Status> {
        wire::decode(self.ty, &self.bytes)
    }

    /// As [`Object::obj`], for the wanted fields only.
    ///
    /// # Errors
    /// As [`Object::obj`].
    pub fn obj_wanted(&self, wanted: &Wanted) -> Result<Obj, Status> {
        wire::decode_wanted(self.ty, &self.bytes, wanted)
    }

    /// Reads name, namespace and uid from the bytes without decoding the object.
    ///
    /// # Errors
    /// 500 when the bytes are not an object with well-formed metadata.
    pub fn head(&self) -> Result<Head, Status> {
        peek(&self.bytes)
    }

    /// Reads `metadata.name` from the bytes; empty when absent. Use [`Object::head`] to read more than one field.
    #[must_use]
    pub fn name(&self) -> Str {
        self.head().unwrap_or_default().name
    }

    /// Reads `metadata.namespace` from the bytes; empty when absent.
    #[must_use]
    pub fn namespace(&self) -> Str {
        self.head().unwrap_or_default().namespace
    }

    /// Reads `metadata.uid` from the bytes; empty when absent.
    #[must_use]
    pub fn uid(&self) -> Str {
        self.head().unwrap_or_default().uid
    }
}

impl std::fmt::Debug for Object {
    /// Never shows the body: it may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("type", &self.ty.name)
            .field("revision", &self.revision)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Answer to a list call.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The store's revision at which the list was read.
    pub revision: Revision,
    /// The objects, in key order.
    pub items: Vec<Object>,
    /// Token for the next page; empty on the last page.
    pub continue_token: Str,
    /// Number of items after this page, if the server reports it.
    pub remaining: Option<u64>,
}
