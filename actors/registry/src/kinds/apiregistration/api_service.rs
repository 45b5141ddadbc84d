//! APIServices: a group that this server serves itself is Available from its creation.

use oarlock_schema::{Obj, Struct, Value, type_named};

use crate::fields;
use crate::kind::{Request, Strategy};

/// Strategy of APIServices.
#[derive(Debug)]
pub struct ApiServiceStrategy;

impl Strategy for ApiServiceStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        if obj.at(&["spec", "service"]).is_none_or(Value::is_null)
            && let Some(ty) = type_named("apiregistration/v1.APIServiceCondition")
        {
            let mut condition = Struct::zero(ty);
            for (field, value) in [
                ("type", "Available"),
                ("status", "True"),
                ("lastTransitionTime", request.now),
                ("reason", "Local"),
                ("message", "Local APIServices are always available"),
            ] {
                condition.set_name(field, value);
            }
            obj.set_at(&["status", "conditions"], [Value::Struct(condition)].into_iter().collect::<Value>());
        }
    }
}
