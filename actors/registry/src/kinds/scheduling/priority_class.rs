//! PriorityClasses: the system's classes cannot be deleted, because system pods need them.

use oarlock_schema::Obj;

use crate::kind::Strategy;

/// Strategy of priority classes.
#[derive(Debug)]
pub struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    fn undeletable(&self, obj: &Obj) -> Option<&'static str> {
        let system = matches!(obj.name(), "system-node-critical" | "system-cluster-critical");
        system.then_some("this is a system priority class and cannot be deleted")
    }
}
