//! Objects for the tables.

use oarlock_codec::{Mode, json};
use oarlock_schema::{Obj, resource};
use serde_json::Value;

/// An object of a resource, read strictly.
pub(crate) fn object(group: &str, resource_name: &str, object: &Value) -> Obj {
    let ty = resource(group, "v1", resource_name).unwrap().ty;
    json::decode(object.to_string().as_bytes(), ty, Mode::Strict).unwrap().value
}

/// A pod.
pub(crate) fn pod(pod: &Value) -> Obj {
    object("", "pods", pod)
}

/// A pod of this specification.
pub(crate) fn of_spec(spec: &Value) -> Obj {
    pod(&serde_json::json!({"spec": spec}))
}
