//! Builds the Event object and the patch that counts a repetition.

use bytes::Bytes;
use oarlock_meta::{Status, Time};
use oarlock_schema::{Obj, Value, type_of_kind};
use serde_json::json;

use super::ObjectRef;
use super::correlate::Record;

/// The longest name of an object in bytes (DNS subdomain, RFC 1123).
const NAME_BYTES: usize = 253;

/// Returns the Event's name, `<object>.<number in hexadecimal>`, as client-go; a long object name is cut.
pub(super) fn name(object: &str, stamp: i128) -> String {
    let tail = format!(".{stamp:x}");
    let mut end = object.len().min(NAME_BYTES.saturating_sub(tail.len()));
    while !object.is_char_boundary(end) {
        end -= 1;
    }
    let head = object.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{head}{tail}")
}

/// Returns the namespace of Events about the object.
pub(super) fn namespace(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

pub(super) fn event(
    name: &str,
    record: &Record,
    message: &str,
    count: u32,
    (component, host): (&str, &str),
) -> Result<Obj, Status> {
    let ty = type_of_kind("", "v1", "Event").ok_or_else(|| Status::internal_error("the schema has no Event"))?;
    let mut event = Obj::new(ty);
    let mut complete = true;
    let mut set = |path: &[&str], value: &str| {
        if !value.is_empty() {
            complete &= event.set_at(path, value);
        }
    };
    let about = &record.about;
    set(&["metadata", "name"], name);
    set(&["metadata", "namespace"], namespace(about));
    for (field, value) in [
        ("kind", &about.kind),
        ("namespace", &about.namespace),
        ("name", &about.name),
        ("uid", &about.uid),
        ("apiVersion", &about.api_version),
        ("resourceVersion", &about.resource_version),
        ("fieldPath", &about.field_path),
    ] {
        set(&["involvedObject", field], value);
    }
    set(&["reason"], &record.reason);
    set(&["message"], message);
    set(&["source", "component"], component);
    set(&["source", "host"], host);
    set(&["reportingComponent"], component);
    set(&["reportingInstance"], host);
    set(&["type"], record.kind.as_str());
    let at = Time::from_unix(record.at).to_string();
    set(&["firstTimestamp"], &at);
    set(&["lastTimestamp"], &at);
    complete &= event.set_at(&["count"], Value::Int(count.into()));
    if complete { Ok(event) } else { Err(Status::internal_error("the schema's Event lacks fields")) }
}

pub(super) fn patch(record: &Record, message: &str, count: u32) -> Result<Bytes, Status> {
    let at = Time::from_unix(record.at).to_string();
    let patch = json!({"count": count, "message": message, "lastTimestamp": at});
    serde_json::to_vec(&patch).map(Bytes::from).map_err(Status::internal_error)
}
