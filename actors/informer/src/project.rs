//! Projections: the fields a consumer reads.

use oarlock_schema::{Obj, Resource, resource};

/// The name of a resource, to be looked up in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceName {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name; empty for projections that fit every resource.
    pub plural: &'static str,
}

impl ResourceName {
    /// For projections that fit every resource; used with [`crate::SharedInformers::of`].
    pub const ANY: Self = Self::new("", "", "");

    /// Names a resource.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self { group, version, plural }
    }

    /// Names a resource of the core group, v1.
    #[must_use]
    pub const fn core(plural: &'static str) -> Self {
        Self::new("", "v1", plural)
    }

    /// The resource, if the schema has it.
    #[must_use]
    pub fn find(self) -> Option<&'static Resource> {
        resource(self.group, self.version, self.plural)
    }
}

/// What a consumer reads of an object beyond [`crate::ObjMeta`]. Take no more than that: the values stay in memory.
///
/// `()` is the projection of those who need metadata only.
pub trait Project: Send + Sync + Sized + 'static {
    /// Which resource it reads.
    const RESOURCE: ResourceName;
    /// Whether [`crate::ObjMeta::annotations`] is kept; they can be large.
    const ANNOTATIONS: bool = false;

    /// Reads the fields. Called once for each new revision of an object; must not panic on odd objects.
    fn project(obj: &Obj) -> Self;

    /// Whether a change from `self` to `next` can be kept from subscribers, if the metadata did not change either. The cache takes the
    /// new revision in any case. Implement it as `==` where objects change more often than the fields read here.
    fn same(&self, next: &Self) -> bool {
        let _ = next;
        false
    }
}

impl Project for () {
    const RESOURCE: ResourceName = ResourceName::ANY;

    fn project(_: &Obj) -> Self {}

    fn same(&self, _: &Self) -> bool {
        true
    }
}
