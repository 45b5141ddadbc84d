//! Deployments: a changed annotation increments the generation, because rollouts read annotations.

use oarlock_schema::Obj;

use crate::fields;
use crate::kind::Strategy;

/// Strategy of deployments.
#[derive(Debug)]
pub struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        fields::desired_state_differs(new, old)
            || new.at(&["metadata", "annotations"]) != old.at(&["metadata", "annotations"])
    }
}
