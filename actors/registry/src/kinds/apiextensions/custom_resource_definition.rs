//! CustomResourceDefinitions: nobody comes to own metadata through `status`, but it is written all the same.

use oarlock_schema::Obj;

use crate::kind::{Request, Strategy};
use crate::prepare;

/// Strategy of CustomResourceDefinitions.
#[derive(Debug)]
pub struct CustomResourceDefinitionStrategy;

impl Strategy for CustomResourceDefinitionStrategy {
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        match request.endpoint {
            "status" => prepare::restore(new, old, &["spec"]),
            _ => prepare::reset_for_update(request, new, old),
        }
    }
}
