//! Volumes and claims start Pending.

use oarlock_schema::{Obj, Resource};

use crate::kind::Strategy;
use crate::prepare;

/// Strategy of persistent volumes and their claims.
#[derive(Debug)]
pub struct PendingStrategy;

impl Strategy for PendingStrategy {
    fn prepare_create(&self, resource: &Resource, obj: &mut Obj) {
        prepare::reset_for_create(resource, obj);
        obj.set_at(&["status", "phase"], "Pending");
    }
}
