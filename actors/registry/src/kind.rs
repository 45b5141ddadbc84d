//! The strategy of a kind: the few hooks with which a kind changes the generic pipeline.

use std::collections::BTreeMap;

use oarlock_client::Propagation;
use oarlock_meta::{ErrorList, Status};
use oarlock_schema::{Obj, Resource, TypeRef};

use crate::fields;

/// The part of a write request that a strategy may use.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The written resource, in the version that the request speaks.
    pub resource: &'static Resource,
    /// `""` for the object itself, else the subresource.
    pub endpoint: &'a str,
    /// The current time, RFC 3339 in seconds.
    pub now: &'a str,
    /// The user who makes the request.
    pub user: Requester<'a>,
}

/// The authenticated user of a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The user name.
    pub name: &'a str,
    /// The unique id, empty if the authenticator gives none.
    pub uid: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// Further attributes from the authenticator.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// One kind as the registry serves it: its resource and its strategy.
#[derive(Clone, Copy)]
pub struct KindDef {
    /// The schema data of the resource.
    pub resource: &'static Resource,
    /// The hooks of the kind.
    pub strategy: &'static dyn Strategy,
}

impl std::fmt::Debug for KindDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.resource.group_version(), self.resource.plural)
    }
}

/// The grace period that a deletion gives an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grace {
    /// The kind has no graceful deletion.
    NotGraceful,
    /// Wait this many seconds (0 deletes at once).
    Seconds(i64),
}

/// The hooks of a kind. Each has a default that follows from the schema data; most kinds override none.
pub trait Strategy: Sync + Send {
    /// Prepares a new object for validation: drops the fields that clients may not set.
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
    }

    /// Prepares an update through an endpoint for validation: restores the fields that this endpoint may not change.
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
    }

    /// Adds errors beyond the rules of the types: rules that depend on the request, the endpoint or this kind. `old` is absent when the object is
    /// new.
    fn validate(&self, _request: &Request<'_>, _new: &Obj, _old: Option<&Obj>, _errors: &mut ErrorList) {}

    /// Whether an update increments `metadata.generation`; called only for resources that have a generation.
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        fields::desired_state_differs(new, old)
    }

    /// Returns the propagation of a deletion when neither the request nor the object gives one; `None` for kinds whose dependents are never
    /// considered.
    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Background)
    }

    /// Returns the reason why an object may never be deleted, if there is one.
    fn undeletable(&self, _obj: &Obj) -> Option<&'static str> {
        None
    }

    /// Returns the warning for clients that delete without a propagation policy.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns the grace of a deletion that asks for `requested` seconds.
    fn grace(&self, _obj: &Obj, _requested: Option<i64>) -> Grace {
        Grace::NotGraceful
    }

    /// Changes an object when its deletion begins (namespaces become Terminating).
    fn begin_delete(&self, _obj: &mut Obj, _now: &str) {}

    /// Whether the first deletion only marks the object, without a grace period, and a later one removes it (namespaces).
    fn marks_first(&self) -> bool {
        false
    }

    /// Whether a finalizer outside of `metadata.finalizers` still holds a deleted object (namespaces: `spec.finalizers`).
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

/// The strategy of kinds that keep all defaults.
#[derive(Clone, Copy, Debug)]
pub struct Generic;

impl Strategy for Generic {}

/// The strategy of kinds whose `status` endpoint changes no metadata (upstream `ResetObjectMetaForStatus`).
#[derive(Clone, Copy, Debug)]
pub struct StatusOnly;

impl Strategy for StatusOnly {
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        if request.endpoint == "status" {
            fields::restore(new, old, &["spec"]);
            fields::restore_metadata(new, old);
        }
    }
}

/// The strategy of kinds whose dependents are orphaned when a deletion gives no propagation policy (upstream keeps this for old `v1` clients).
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

    /// Returns a request of an anonymous user to the main endpoint.
    pub(crate) fn request(resource: &'static Resource) -> Request<'static> {
        static NOTHING: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let user = Requester { name: "", uid: "", groups: &[], extra: &NOTHING };
        Request { resource, endpoint: "", now: "2020-01-01T00:00:00Z", user }
    }
}
