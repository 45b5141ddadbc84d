//! The fields of a PersistentVolumeClaim's status that a kubelet may change: those with the result of a volume expansion on the node.

use oarlock_schema::{Obj, canonical};

/// The status fields that a kubelet may change.
const KUBELET_FIELDS: &[&str] = &["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

/// Checks a change of a claim's status.
pub(super) fn check(new: &Obj, old: &Obj, node: &str) -> Result<(), String> {
    let rest = |obj: &Obj| {
        let mut obj = obj.clone();
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_resource_version().clear_managed_fields();
        }
        for field in KUBELET_FIELDS {
            oarlock_registry::fields::remove_at(&mut obj, &["status", field]);
        }
        obj
    };
    let (new, old) = (rest(new), rest(old));
    if new.ty().iter().all(|(id, _)| canonical::same(new.field(id), old.field(id))) {
        return Ok(());
    }
    Err(format!("node \"{node}\" is not allowed to update fields other than status.quantity and status.conditions"))
}
