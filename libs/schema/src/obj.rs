//! `Obj`: one whole API object, a struct node of a top-level type.

use crate::types::{Gvk, TypeRef};
use crate::value::{Struct, Value};
use crate::views::{View, meta_v1};

/// One API object. Dereferences to its root [`Struct`].
#[derive(Clone, PartialEq, Debug)]
pub struct Obj {
    root: Struct,
}

impl Obj {
    /// Makes an empty object of a top-level type, with `kind` and `apiVersion` set.
    #[must_use]
    pub fn new(ty: TypeRef) -> Self {
        let mut root = Struct::zero(ty);
        if let Some(gvk) = ty.gvk {
            stamp(&mut root, gvk);
        }
        Self { root }
    }

    /// Makes an object of a root node, unchanged.
    #[must_use]
    pub fn from_root(root: Struct) -> Self {
        Self { root }
    }

    /// Returns the root node.
    #[must_use]
    pub fn into_root(self) -> Struct {
        self.root
    }

    /// Returns a typed view of the object, if the view's type is that of the object.
    #[must_use]
    pub fn view<'a, V: View<'a>>(&'a self) -> Option<V> {
        V::of(&self.root)
    }

    /// Returns the kind that the object states.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Returns the `apiVersion` that the object states.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// Sets `kind` and `apiVersion`.
    pub fn set_gvk(&mut self, gvk: Gvk) {
        stamp(&mut self.root, gvk);
    }

    /// Returns the metadata; empty for types without metadata.
    #[must_use]
    pub fn meta(&self) -> meta_v1::ObjectMeta<'_> {
        meta_v1::ObjectMeta::from_option(self.root.get("metadata").and_then(Value::as_struct))
    }

    /// Returns the metadata, created if absent; `None` for types without metadata.
    pub fn meta_mut(&mut self) -> Option<meta_v1::ObjectMetaMut<'_>> {
        let (id, _) = self.root.ty().field("metadata")?;
        let node = self.root.struct_entry(id)?;
        std::ptr::eq(node.ty(), <meta_v1::ObjectMeta<'_> as View<'_>>::TYPE).then(|| meta_v1::ObjectMetaMut::new(node))
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.meta().name()
    }

    /// Returns `metadata.namespace`, empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.meta().namespace()
    }

    fn text(&self, field: &str) -> &str {
        self.root.get(field).and_then(Value::as_str).unwrap_or("")
    }
}

fn stamp(root: &mut Struct, gvk: Gvk) {
    root.set_name("kind", gvk.kind);
    let version = if gvk.group.is_empty() { gvk.version.to_owned() } else { format!("{}/{}", gvk.group, gvk.version) };
    root.set_name("apiVersion", version);
}

impl std::ops::Deref for Obj {
    type Target = Struct;
    fn deref(&self) -> &Struct {
        &self.root
    }
}

impl std::ops::DerefMut for Obj {
    fn deref_mut(&mut self) -> &mut Struct {
        &mut self.root
    }
}
