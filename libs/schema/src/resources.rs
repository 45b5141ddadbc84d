//! The resources that a default 1.35 serves: one row each, in discovery order, written by the build script.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::{Gvk, TypeRef};

/// A served resource.
#[derive(Debug)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// Short names, as `po`.
    pub short_names: &'static [&'static str],
    /// Categories, as `all`.
    pub categories: &'static [&'static str],
    /// Verbs in discovery order.
    pub verbs: &'static [&'static str],
    /// Type of one object.
    pub ty: TypeRef,
    /// Type of a list, if the resource can be listed.
    pub list_ty: Option<TypeRef>,
    /// Subresources in discovery order.
    pub subresources: &'static [Subresource],
    /// Where and how upstream keeps the objects; `None` for resources that are only answered (reviews).
    pub storage: Option<Storage>,
    /// Field labels that field selectors may name.
    pub selectable: &'static [&'static str],
    /// Columns of `kubectl get`, without the leading object.
    pub columns: &'static [Column],
    /// Paths that each endpoint (`""` is the main one) puts back to the stored value, so that nobody owns them there.
    pub reset: &'static [(&'static str, &'static [&'static str])],
    /// PUT to a name that does not exist creates.
    pub create_on_update: bool,
    /// PUT without resourceVersion is allowed.
    pub unconditional_update: bool,
    /// DELETE answers with the object, not with a Status.
    pub returns_object: bool,
    /// Deletion waits for a grace period.
    pub graceful: bool,
    /// `metadata.generation` is kept.
    pub generation: bool,
}

/// A subresource of a resource.
#[derive(Debug)]
pub struct Subresource {
    /// Name behind the slash, as `status`.
    pub name: &'static str,
    /// Kind of its body.
    pub gvk: Gvk,
    /// Type of its body, where it has a schema.
    pub ty: Option<TypeRef>,
    /// Verbs in discovery order.
    pub verbs: &'static [&'static str],
}

/// Where and how upstream keeps a resource in etcd.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Key prefix, as `/registry/pods/`.
    pub prefix: &'static str,
    /// Version of the stored form.
    pub version: &'static str,
    /// Stored as JSON; protobuf otherwise.
    pub json: bool,
}

/// A column of `kubectl get`.
#[derive(Debug)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// OpenAPI type of the cells.
    pub ty: &'static str,
    /// OpenAPI format; `name` marks the name column.
    pub format: &'static str,
    /// 0 shows always, more only with `-o wide`.
    pub priority: i32,
}

impl Resource {
    /// `group/version`, or `version` for core.
    #[must_use]
    pub fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> Gvk {
        Gvk { group: self.group, version: self.version, kind: self.kind }
    }

    /// `plural.group`, as error texts name resources.
    #[must_use]
    pub fn group_resource(&self) -> oarlock_meta::GroupResource {
        oarlock_meta::GroupResource::new(self.group, self.plural)
    }

    /// The subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Whether a verb is served.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

/// By three texts. Nobody outside chooses what is in it, so its hash need not be guarded against them.
type By3<'k, T> = HashMap<(&'k str, &'k str, &'k str), T, foldhash::fast::FixedState>;

static INDEX: LazyLock<By3<'static, &'static Resource>> =
    LazyLock::new(|| RESOURCES.iter().map(|r| ((r.group, r.version, r.plural), r)).collect());

/// The resource of a group, version and plural name.
#[must_use]
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    // The map's keys are 'static; a lookup with shorter lifetimes is a covariance cast of the whole map reference.
    let index: &By3<'_, &'static Resource> = &INDEX;
    index.get(&(group, version, plural)).copied()
}

/// The resource of a group, version and kind.
#[must_use]
pub fn resource_of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.kind == kind)
}

static KINDS: LazyLock<By3<'static, TypeRef>> = LazyLock::new(|| {
    TYPES.iter().filter_map(|ty| ty.gvk.map(|gvk| ((gvk.group, gvk.version, gvk.kind), *ty))).collect()
});

/// The built-in top-level type of a group, version and kind.
#[must_use]
pub fn type_of_kind(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    let kinds: &By3<'_, TypeRef> = &KINDS;
    kinds.get(&(group, version, kind)).copied()
}

/// The built-in type of a short name, as `core/v1.Pod`.
#[must_use]
pub fn type_named(name: &str) -> Option<TypeRef> {
    let at = TYPES.binary_search_by(|ty| ty.name.cmp(name)).ok()?;
    TYPES.get(at).copied()
}

include!(concat!(env!("OUT_DIR"), "/facts.rs"));
