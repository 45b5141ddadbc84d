//! The target of a call: the resource's row, keys and types, and the conversions between stored and served form.

use bytes::Bytes;
use oarlock_client::Object;
use oarlock_meta::{ErrorList, GroupKind, Status};
use oarlock_registry::{KindDef, index, key};
use oarlock_schema::{Obj, RESOURCES, Resource, TypeRef};
use oarlock_storage::Key;
use oarlock_store::Entry;

/// One resource as a call addresses it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The kind's row.
    pub kind: KindDef,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster scope and all namespaces.
    pub namespace: &'a str,
    /// Name; empty for the collection.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// Creates the target of a resource.
    #[must_use]
    pub fn new(resource: &'static Resource, subresource: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { kind: oarlock_registry::kind(resource), subresource, namespace, name }
    }

    /// Returns the facts of the resource.
    #[must_use]
    pub fn resource(&self) -> &'static Resource {
        self.kind.resource
    }

    /// Returns the key prefix of the resource.
    ///
    /// # Errors
    /// 405 for resources that are not stored.
    pub fn prefix(&self) -> Result<&'static str, Status> {
        key::prefix(self.resource())
            .ok_or_else(|| Status::method_not_supported(&self.resource().group_resource(), "list"))
    }

    /// Returns the key of the named object.
    ///
    /// # Errors
    /// 405 for resources that are not stored, 400 for a name that is not a valid path segment.
    pub fn key(&self, name: &str) -> Result<Key, Status> {
        let wrong = oarlock_apis::rules::formats::path_segment(name);
        if !wrong.is_empty() {
            let shown = oarlock_meta::quote::quote(name);
            return Err(Status::bad_request(format!("Name parameter invalid: {shown}: {}", wrong.join(";"))));
        }
        key::key(self.resource(), self.namespace, name)
            .ok_or_else(|| Status::method_not_supported(&self.resource().group_resource(), "get"))
    }

    /// Returns the type of the stored objects.
    #[must_use]
    pub fn stored_type(&self) -> TypeRef {
        index::stored_type(self.resource())
    }

    /// Returns a 404 for the named object.
    #[must_use]
    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource().group_resource(), self.name)
    }

    /// Returns a 422 if there are validation errors.
    ///
    /// # Errors
    /// 422 with every error as a cause.
    pub fn check(&self, name: &str, errors: &ErrorList) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&self.group_kind(), name, errors.as_slice()))
    }

    /// Returns group and kind as a 422 names them.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        // Upstream validates the internal type, whose group is that of the stored one (events).
        let group = self.stored_type().gvk.map_or(self.resource().group, |gvk| gvk.group);
        GroupKind::new(group, self.resource().kind)
    }

    /// Whether the stored and the served form are the same bytes.
    #[must_use]
    pub fn serves_stored(&self) -> bool {
        std::ptr::eq(self.stored_type(), self.resource().ty)
    }

    /// Whether the kind is served in several versions.
    #[must_use]
    pub fn has_versions(&self) -> bool {
        let prefix = self.resource().storage.map(|s| s.prefix);
        RESOURCES.iter().any(|row| {
            !std::ptr::eq(row.ty, self.stored_type()) && row.storage.is_some_and(|s| Some(s.prefix) == prefix)
        })
    }

    /// Returns the object in another version (such as `autoscaling/v2`); `None` when the kind has no such version.
    #[must_use]
    pub fn to_version(&self, obj: &Obj, version: &str) -> Option<Obj> {
        let prefix = self.resource().storage?.prefix;
        let same = |row: &&Resource| row.storage.is_some_and(|s| s.prefix == prefix) && row.group_version() == version;
        let ty = RESOURCES.iter().find(same)?.ty;
        let stored = self.to_stored(obj.clone()).ok()?;
        if std::ptr::eq(ty, stored.ty()) { Some(stored) } else { self.kind.strategy.convert(&stored, ty).ok() }
    }

    /// Converts the object of a request into the stored type.
    ///
    /// # Errors
    /// A `Status` when the kind has no such conversion.
    pub fn to_stored(&self, obj: Obj) -> Result<Obj, Status> {
        if std::ptr::eq(obj.ty(), self.stored_type()) {
            return Ok(obj);
        }
        self.kind.strategy.convert(&obj, self.stored_type())
    }

    /// Converts a stored object into the served type.
    ///
    /// # Errors
    /// A `Status` when the kind has no such conversion.
    pub fn to_served(&self, obj: Obj) -> Result<Obj, Status> {
        if std::ptr::eq(obj.ty(), self.resource().ty) {
            return Ok(obj);
        }
        self.kind.strategy.convert(&obj, self.resource().ty)
    }

    /// Returns an entry in the form that this version serves.
    ///
    /// # Errors
    /// 500 when the stored bytes do not decode.
    pub fn object(&self, entry: &Entry) -> Result<Object, Status> {
        let bytes = ready(entry)?;
        if self.serves_stored() {
            return Ok(Object::new(self.resource().ty, bytes, entry.revision));
        }
        let served = self.to_served(self.decode(entry)?)?;
        Ok(Object::new(self.resource().ty, oarlock_codec::json::encode(&served).bytes.into(), entry.revision))
    }

    /// Decodes an entry in its stored type, with its resourceVersion.
    ///
    /// # Errors
    /// 500 when the stored bytes do not decode.
    pub fn decode(&self, entry: &Entry) -> Result<Obj, Status> {
        index::decode(&ready(entry)?, self.stored_type())
            .map_err(|e| Status::internal_error(format!("{}: stored object does not decode: {e}", entry.key)))
    }
}

fn ready(entry: &Entry) -> Result<Bytes, Status> {
    entry.bytes().cloned().ok_or_else(|| Status::internal_error(format!("{}: body is not in memory", entry.key)))
}
