//! Objects as shared bytes.

use bytes::Bytes;
use oarlock_codec::Wanted;
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Str, TypeRef};

use crate::peek::{Head, peek, revision};
use crate::wire;

/// One API object in its JSON form. Cloning shares the bytes.
#[derive(Clone)]
pub struct Object {
    /// JSON with `metadata.resourceVersion`; items of a list may lack `kind` and `apiVersion`, as upstream.
    pub bytes: Bytes,
    /// The object's resourceVersion; zero for what has none (answers such as a Scale's may).
    pub revision: Revision,
    /// What the bytes hold.
    pub ty: TypeRef,
}

impl Object {
    /// Joins the parts; nothing is checked.
    #[must_use]
    pub const fn new(ty: TypeRef, bytes: Bytes, revision: Revision) -> Self {
        Self { bytes, revision, ty }
    }

    /// Takes JSON bytes and reads the revision from them.
    ///
    /// # Errors
    /// 500 when the bytes are no object with well-formed metadata.
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

    /// As [`Object::obj`], of the wanted fields only.
    ///
    /// # Errors
    /// As [`Object::obj`].
    pub fn obj_wanted(&self, wanted: &Wanted) -> Result<Obj, Status> {
        wire::decode_wanted(self.ty, &self.bytes, wanted)
    }

    /// Name, namespace and uid, read from the bytes without building the object.
    ///
    /// # Errors
    /// 500 when the bytes are no object with well-formed metadata.
    pub fn head(&self) -> Result<Head, Status> {
        peek(&self.bytes)
    }

    /// `metadata.name`, read from the bytes; empty when there is none. Use [`Object::head`] to read more than one field.
    #[must_use]
    pub fn name(&self) -> Str {
        self.head().unwrap_or_default().name
    }

    /// `metadata.namespace`, read from the bytes; empty when there is none.
    #[must_use]
    pub fn namespace(&self) -> Str {
        self.head().unwrap_or_default().namespace
    }

    /// `metadata.uid`, read from the bytes; empty when there is none.
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

/// The answer of a list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The store's revision at which the list was read.
    pub revision: Revision,
    /// The objects, in key order.
    pub items: Vec<Object>,
    /// Where to go on; empty at the end.
    pub continue_token: Str,
    /// How many items follow, if the server says so.
    pub remaining: Option<u64>,
}
