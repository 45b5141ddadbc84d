//! Projections: the fields of an object that a consumer reads, and that a cache therefore decodes and keeps.

use oarlock_client::Wanted;
use oarlock_schema::{Obj, Resource, resource};

use crate::obj_meta::READ;

/// The path of `metadata.managedFields`. No projection reads the field, and in small objects it is much of the text.
pub const MANAGED_FIELDS_PATH: &[&str] = &["metadata", "managedFields"];

/// The name of a resource (group, version, plural), to be looked up in the schema.
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
    /// The name used by projections that fit every resource; see [`crate::SharedInformers::of`].
    pub const ANY: Self = Self::new("", "", "");

    /// Names a resource.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self { group, version, plural }
    }

    /// Names a resource of the core group, version v1.
    #[must_use]
    pub const fn core(plural: &'static str) -> Self {
        Self::new("", "v1", plural)
    }

    /// Returns the resource, if the schema has one of this name.
    #[must_use]
    pub fn find(self) -> Option<&'static Resource> {
        resource(self.group, self.version, self.plural)
    }
}

/// The fields of an object that are decoded, by their paths. A path passes through lists and maps without naming their elements. Of fields that
/// are not decoded only the syntax is checked.
#[derive(Clone, Copy, Debug)]
pub enum Fields {
    /// The metadata that [`crate::ObjMeta`] keeps.
    Metadata,
    /// All fields but these.
    But(&'static [&'static [&'static str]]),
}

impl Fields {
    /// Converts the fields to the form that decoders take.
    #[must_use]
    pub fn wanted(self) -> Wanted {
        match self {
            Self::Metadata => Wanted::at(READ.map(|name| ["metadata", name]).iter().map(|path| &path[..])),
            Self::But(paths) => Wanted::but(paths.iter().copied()),
        }
    }
}

/// The fields that a consumer reads of an object beyond [`crate::ObjMeta`]. Values stay in memory, so a projection holds no field that is not read.
///
/// `()` is the projection for consumers that need metadata only.
pub trait Project: Send + Sync + Sized + 'static {
    /// The resource that is projected.
    const RESOURCE: ResourceName;
    /// Whether [`crate::ObjMeta::annotations`] is kept; annotations can be large.
    const ANNOTATIONS: bool = false;
    /// The fields to decode: at least those that [`Project::project`] reads, and those of [`crate::ObjMeta`].
    const FIELDS: Fields = Fields::But(&[MANAGED_FIELDS_PATH]);

    /// Reads the fields. Called once for each new revision of an object; must not panic on objects with unexpected content.
    fn project(obj: &Obj) -> Self;

    /// Whether a change from `self` to `next` need not be reported to subscribers, provided the metadata did not change either. The cache takes the
    /// new revision in any case. Implement this as `==` where objects change more often than the projected fields.
    fn same(&self, next: &Self) -> bool {
        let _ = next;
        false
    }
}

impl Project for () {
    const RESOURCE: ResourceName = ResourceName::ANY;
    const FIELDS: Fields = Fields::Metadata;

    fn project(_: &Obj) -> Self {}

    fn same(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use oarlock_client::{decode, decode_wanted};
    use oarlock_meta::Revision;

    use super::*;
    use crate::obj_meta::ObjMeta;

    #[test]
    fn of_metadata_everything_is_decoded_that_is_kept_and_of_all_but_who_owns_them_everything() {
        let ty = ResourceName::core("configmaps").find().unwrap().ty;
        let bytes = br#"{"metadata":{"name":"n","namespace":"ns","uid":"u","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z",
            "deletionTimestamp":"2026-01-02T03:04:06Z","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["f"],"managedFields":[{"manager":"m"}],
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"x","controller":true}]},"data":{"k":"v"}}"#;
        let whole = decode(ty, bytes).unwrap();
        let meta = |obj: &Obj| ObjMeta::read(obj, Revision(1), true);
        let metadata = decode_wanted(ty, bytes, &Fields::Metadata.wanted()).unwrap();
        assert_eq!((meta(&metadata), metadata.get("data")), (meta(&whole), None));
        let but = decode_wanted(ty, bytes, &Fields::But(&[MANAGED_FIELDS_PATH]).wanted()).unwrap();
        assert_eq!((meta(&but), but.get("data")), (meta(&whole), whole.get("data")));
        assert!(
            whole.at(MANAGED_FIELDS_PATH).is_some()
                && but.at(MANAGED_FIELDS_PATH).is_none()
                && metadata.at(MANAGED_FIELDS_PATH).is_none()
        );
    }
}
