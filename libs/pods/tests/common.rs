//! Builders of objects for the test tables.

use oarlock_codec::{Mode, json};
use oarlock_schema::{Obj, resource};
use serde_json::Value;

/// Makes an object of a resource by strict decoding.
pub(crate) fn object(group: &str, resource_name: &str, object: &Value) -> Obj {
    let ty = resource(group, "v1", resource_name).unwrap().ty;
    json::decode(object.to_string().as_bytes(), ty, Mode::Strict).unwrap().value
}

/// Makes a pod.
pub(crate) fn pod(pod: &Value) -> Obj {
    object("", "pods", pod)
}

/// Makes a pod with this specification.
pub(crate) fn of_spec(spec: &Value) -> Obj {
    pod(&serde_json::json!({"spec": spec}))
}
