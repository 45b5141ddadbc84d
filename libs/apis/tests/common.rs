//! Reads recorded objects.

use oarlock_codec::{Mode, json};
use oarlock_schema::{Obj, Resource, resource_of_kind};

/// Returns the resource and object of a recorded JSON object.
pub(crate) fn obj(json: &serde_json::Value) -> (&'static Resource, Obj) {
    let text = |name: &str| json[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = resource_of_kind(group, version, text("kind")).unwrap();
    (resource, json::decode(json.to_string().as_bytes(), resource.ty, Mode::Lenient).unwrap().value)
}
