//! What a kind may decide for itself: a row of facts and a few hooks, everything else is the generic pipeline.

use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource, TypeRef};

use crate::prepare::{self, Endpoint};

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
    fn prepare_create(&self, resource: &Resource, obj: &mut Obj) {
        prepare::reset_for_create(resource, obj);
    }

    /// Before validation of a change through an endpoint (`""` is the main one): puts back what that endpoint may not change.
    fn prepare_update(&self, resource: &Resource, endpoint: Endpoint<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(resource, endpoint, new, old);
    }

    /// Whether a change counts for `metadata.generation`; asked only for resources that keep one.
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        prepare::desired_state_differs(new, old)
    }

    /// Grace of a deletion that asks for `requested` seconds.
    fn grace(&self, _obj: &Obj, _requested: Option<i64>) -> Grace {
        Grace::NotGraceful
    }

    /// Changes an object that starts its deletion (namespaces turn Terminating).
    fn begin_delete(&self, _obj: &mut Obj) {}

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
