//! What a kind may decide for itself: a row of facts and a few hooks, everything else is the generic pipeline.

use std::collections::BTreeMap;

use oarlock_client::Propagation;
use oarlock_meta::{ErrorList, Status};
use oarlock_schema::{Obj, Resource, TypeRef};

use crate::prepare;

/// What a strategy knows of the request that writes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The written resource, in the version that the request speaks.
    pub resource: &'static Resource,
    /// `""` for the object itself, else the subresource.
    pub endpoint: &'a str,
    /// The present, RFC 3339 seconds.
    pub now: &'a str,
    /// Who asks.
    pub user: Requester<'a>,
}

/// The user behind a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Name.
    pub name: &'a str,
    /// Unique id, empty where the authenticator knows none.
    pub uid: &'a str,
    /// Groups.
    pub groups: &'a [String],
    /// What else the authenticator knows.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// One kind as the registry serves it.
#[derive(Clone, Copy)]
pub struct KindDef {
    /// The facts.
    pub resource: &'static Resource,
    /// The hooks.
    pub strategy: &'static dyn Strategy,
}

impl std::fmt::Debug for KindDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.resource.group_version(), self.resource.plural)
    }
}

/// Grace that a deletion gives an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grace {
    /// The kind knows no graceful deletion.
    NotGraceful,
    /// Wait this many seconds (0 deletes at once).
    Seconds(i64),
}

/// The hooks of a kind. Every one has the default that the schema facts imply; most kinds override none.
pub trait Strategy: Sync + Send {
    /// Before validation of a new object: drops what clients may not set.
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        prepare::reset_for_create(request.resource, obj);
    }

    /// Before validation of a change through an endpoint: puts back what that endpoint may not change.
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(request, new, old);
    }

    /// Errors besides those of the types' rules: what depends on the request, and what only an endpoint or this kind's server forbids.
    /// `old` is absent when the object is new.
    fn validate(&self, _request: &Request<'_>, _new: &Obj, _old: Option<&Obj>, _errors: &mut ErrorList) {}

    /// Whether a change counts for `metadata.generation`; asked only for resources that keep one.
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        prepare::desired_state_differs(new, old)
    }

    /// What a deletion does with dependents when neither the request nor the object says so; `None` where they are never looked at.
    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Background)
    }

    /// Why an object may never be deleted, if so.
    fn undeletable(&self, _obj: &Obj) -> Option<&'static str> {
        None
    }

    /// What callers are told who delete without a word about dependents.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Grace of a deletion that asks for `requested` seconds.
    fn grace(&self, _obj: &Obj, _requested: Option<i64>) -> Grace {
        Grace::NotGraceful
    }

    /// Changes an object that starts its deletion (namespaces turn Terminating).
    fn begin_delete(&self, _obj: &mut Obj, _now: &str) {}

    /// The first deletion always marks the object, without a grace period, and only a later one removes it (namespaces).
    fn marks_first(&self) -> bool {
        false
    }

    /// Whether something besides `metadata.finalizers` still keeps a deleted object (namespaces: `spec.finalizers`).
    fn holds_deletion(&self, _obj: &Obj) -> bool {
        false
    }

    /// Converts from the stored type to another served version of the same kind.
    ///
    /// # Errors
    /// A `Status` when the kind has no such version.
    fn convert(&self, obj: &Obj, to: TypeRef) -> Result<Obj, Status> {
        if std::ptr::eq(obj.ty(), to) {
            return Ok(obj.clone());
        }
        Err(Status::internal_error(format!("no conversion from {} to {}", obj.ty().name, to.name)))
    }
}

/// The strategy of kinds that leave everything to the facts.
#[derive(Clone, Copy, Debug)]
pub struct Generic;

impl Strategy for Generic {}

/// Kinds whose status is written without the metadata around it (upstream `ResetObjectMetaForStatus`).
#[derive(Clone, Copy, Debug)]
pub struct StatusOnly;

impl Strategy for StatusOnly {
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(request, new, old);
        if request.endpoint == "status" {
            prepare::restore(new, old, &["spec"]);
            prepare::restore_metadata(new, old);
        }
    }
}

/// Deleted without a word about dependents, these kinds leave them behind (upstream keeps it so for `v1` clients of old).
#[derive(Clone, Copy, Debug)]
pub struct Orphaning;

impl Strategy for Orphaning {
    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Orphan)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A request of nobody in particular to the object itself.
    pub(crate) fn request(resource: &'static Resource) -> Request<'static> {
        static NOTHING: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let user = Requester { name: "", uid: "", groups: &[], extra: &NOTHING };
        Request { resource, endpoint: "", now: "2020-01-01T00:00:00Z", user }
    }
}
