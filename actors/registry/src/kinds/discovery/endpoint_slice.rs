//! EndpointSlices: labels count for the generation, because they say whose endpoints these are.

use oarlock_schema::Obj;

use crate::kind::Strategy;
use crate::prepare;

/// Strategy of endpoint slices.
#[derive(Debug)]
pub struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        prepare::desired_state_differs(new, old) || new.at(&["metadata", "labels"]) != old.at(&["metadata", "labels"])
    }
}
