//! Printers of dynamic resource allocation.

use oarlock_schema::Value;
use oarlock_schema::views::resource_v1::{ResourceClaim, ResourceSlice};

use super::{Now, cells};

pub(super) fn claim(obj: ResourceClaim<'_>, now: Now) -> Vec<Value> {
    let (meta, status) = (obj.metadata(), obj.status());
    let deleted = meta.deletion_timestamp().is_some();
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if status.allocation().is_some() {
        states.push("allocated");
        if !status.reserved_for().is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    cells![meta.name(), states.join(","), now.since(meta.creation_timestamp())]
}

pub(super) fn slice(obj: ResourceSlice<'_>, now: Now) -> Vec<Value> {
    let (meta, spec) = (obj.metadata(), obj.spec());
    cells![
        meta.name(),
        spec.node_name().unwrap_or(""),
        spec.driver(),
        spec.pool().name(),
        now.since(meta.creation_timestamp()),
    ]
}
