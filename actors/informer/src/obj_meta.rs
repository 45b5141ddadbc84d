//! The metadata of an object that caches keep, whatever they project of the rest.

use oarlock_meta::{Revision, Time, Uid};
use oarlock_schema::{Obj, Str, Value};

use crate::key::Key;

/// One owner of an object (upstream `metav1.OwnerReference`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef {
    /// Group and version of the owner.
    pub api_version: Str,
    /// Kind of the owner.
    pub kind: Str,
    /// Name of the owner.
    pub name: Str,
    /// Uid of the owner: the reference is void when another object has the name now.
    pub uid: Uid,
    /// Whether the owner is the managing controller; at most one owner is.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this object.
    pub block_deletion: bool,
}

/// The metadata of an object that most consumers need (upstream `metav1.ObjectMeta`, in part).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjMeta {
    /// Namespace and name.
    pub key: Key,
    /// Uid.
    pub uid: Uid,
    /// The revision of this state; for a deleted object the revision of the deletion.
    pub revision: Revision,
    /// `metadata.generation`, 0 for kinds without generations.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// `metadata.deletionTimestamp`: the time of the delete request plus the grace period; `None` unless the object is being deleted.
    pub deletion: Option<Time>,
    /// Labels, sorted by key.
    pub labels: Box<[(Str, Str)]>,
    /// Annotations, sorted by key; empty unless the projection asks for them.
    pub annotations: Box<[(Str, Str)]>,
    /// Owners in order.
    pub owners: Box<[OwnerRef]>,
    /// Finalizers in order.
    pub finalizers: Box<[Str]>,
}

/// The metadata fields that [`ObjMeta::read`] reads.
pub(crate) const READ: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

impl ObjMeta {
    /// Reads an object's metadata; its annotations only if `annotations` is set.
    #[must_use]
    pub fn read(obj: &Obj, revision: Revision, annotations: bool) -> Self {
        Self {
            key: Key::new(obj.namespace(), obj.name()),
            uid: Uid::from(field(obj, "uid").and_then(Value::as_str).unwrap_or("")),
            revision,
            generation: field(obj, "generation").and_then(Value::as_int).unwrap_or(0),
            created: time(field(obj, "creationTimestamp")),
            deletion: time(field(obj, "deletionTimestamp")),
            labels: pairs(field(obj, "labels")),
            annotations: if annotations { pairs(field(obj, "annotations")) } else { Box::default() },
            owners: field(obj, "ownerReferences").map_or_else(Box::default, |v| v.items().iter().map(owner).collect()),
            finalizers: field(obj, "finalizers")
                .map_or_else(Box::default, |v| v.items().iter().filter_map(Value::as_str).map(Str::from).collect()),
        }
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// The object's namespace, empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        find(&self.labels, key)
    }

    /// Returns the value of an annotation; none unless the projection keeps annotations.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        find(&self.annotations, key)
    }

    /// Returns the managing controller (upstream `metav1.GetControllerOf`).
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.deletion.is_some()
    }

    /// Whether `self` and `next` differ in nothing but the revision.
    pub(crate) fn same(&self, next: &Self) -> bool {
        self.key == next.key && self.uid == next.uid && self.alike(next)
    }

    /// Copies the metadata with another key, uid and revision.
    #[must_use]
    pub fn like(&self, key: Key, uid: Uid, revision: Revision) -> Self {
        Self {
            key,
            uid,
            revision,
            generation: self.generation,
            created: self.created,
            deletion: self.deletion,
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            owners: self.owners.clone(),
            finalizers: self.finalizers.clone(),
        }
    }

    /// Whether `self` and `other` differ in nothing but key, uid and revision.
    #[must_use]
    pub fn alike(&self, other: &Self) -> bool {
        let Self {
            key: _,
            uid: _,
            revision: _,
            generation,
            created,
            deletion,
            labels,
            annotations,
            owners,
            finalizers,
        } = self;
        *generation == other.generation
            && *created == other.created
            && *deletion == other.deletion
            && *labels == other.labels
            && *annotations == other.annotations
            && *owners == other.owners
            && *finalizers == other.finalizers
    }
}

fn field<'a>(obj: &'a Obj, name: &str) -> Option<&'a Value> {
    obj.get("metadata")?.get(name)
}

fn time(value: Option<&Value>) -> Option<Time> {
    Time::parse(value?.as_str()?).ok()
}

/// Returns the entries of a string map, sorted because the value tree keeps maps sorted.
fn pairs(value: Option<&Value>) -> Box<[(Str, Str)]> {
    let Some(map) = value.and_then(Value::as_map) else { return Box::default() };
    map.iter().map(|(key, value)| (Str::from(key), Str::from(value.as_str().unwrap_or("")))).collect()
}

fn find<'a>(pairs: &'a [(Str, Str)], key: &str) -> Option<&'a str> {
    let at = pairs.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
    pairs.get(at).map(|(_, value)| value.as_str())
}

fn owner(value: &Value) -> OwnerRef {
    let text = |name: &str| Str::from(value.get(name).and_then(Value::as_str).unwrap_or(""));
    let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
    OwnerRef {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: Uid(text("uid")),
        controller: flag("controller"),
        block_deletion: flag("blockOwnerDeletion"),
    }
}
