//! EndpointSlices: a changed label increments the generation, because labels name the Service of the endpoints.

use oarlock_schema::Obj;

use crate::fields;
use crate::kind::Strategy;

/// Strategy of endpoint slices.
#[derive(Debug)]
pub struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    fn bumps_generation(&self, new: &Obj, old: &Obj) -> bool {
        fields::desired_state_differs(new, old) || new.at(&["metadata", "labels"]) != old.at(&["metadata", "labels"])
    }
}
