//! Defaults of requests for devices.

use oarlock_schema::{Struct, Value};

/// Sets the default count of a request for an exact number of devices to one (upstream `SetDefaults_ExactDeviceRequest`).
pub fn default(node: &mut Struct) {
    let exact = node.get("allocationMode").and_then(Value::as_str) == Some("ExactCount");
    if exact && node.get("count").and_then(Value::as_int).unwrap_or(0) == 0 {
        node.set_name("count", 1);
    }
}
