//! The items of a cache: the common metadata of an object, and its projection.

use oarlock_meta::Revision;
use oarlock_schema::Obj;

use crate::key::Key;
use crate::obj_meta::ObjMeta;
use crate::project::Project;

/// One object in a cache: its common metadata and its projection.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// The object's metadata.
    pub meta: ObjMeta,
    /// The object's projection.
    pub value: T,
}

impl<T> Item<T> {
    /// The object's namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.meta.key
    }
}

impl<T: Project> Item<T> {
    /// Projects an object with `T::project`.
    #[must_use]
    pub fn of(obj: &Obj, revision: Revision) -> Self {
        Self { meta: ObjMeta::read(obj, revision, T::ANNOTATIONS), value: T::project(obj) }
    }

    /// Whether the change from `self` to `next` need not be reported to subscribers.
    pub(crate) fn same(&self, next: &Self) -> bool {
        self.meta.same(&next.meta) && self.value.same(&next.value)
    }
}
