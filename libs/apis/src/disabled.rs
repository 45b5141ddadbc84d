//! Fields behind feature gates that are off in a default 1.35: they stay in the schema and are dropped on write, unless the stored object has
//! them already (upstream: the `dropDisabled` functions of the strategies).

use oarlock_schema::{FieldId, Obj, Struct, TypeRef, Value};

use crate::table::slot;

/// Types with fields of gates that are off. Fields whose gate widens what they may hold (`minReplicas`, `operator`) are not among them:
/// validation refuses those values.
pub(crate) const FIELDS: &[(&str, &[&str])] = &[
    ("coordination/v1.LeaseSpec", &["strategy", "preferredHolder"]),
    ("core/v1.ContainerStatus", &["allocatedResources", "allocatedResourcesStatus"]),
    ("core/v1.Lifecycle", &["stopSignal"]),
    ("core/v1.NodeStatus", &["declaredFeatures"]),
    ("core/v1.PodSpec", &["workloadRef"]),
    ("core/v1.PodStatus", &["extendedResourceClaimStatus", "allocatedResources", "resources"]),
    ("core/v1.VolumeProjection", &["clusterTrustBundle", "podCertificate"]),
    ("resource/v1.AllocatedDeviceStatus", &["shareID"]),
    ("resource/v1.AllocationResult", &["allocationTimestamp"]),
    (
        "resource/v1.Device",
        &[
            "consumesCounters",
            "nodeName",
            "nodeSelector",
            "allNodes",
            "taints",
            "bindsToNode",
            "bindingConditions",
            "bindingFailureConditions",
            "allowMultipleAllocations",
        ],
    ),
    ("resource/v1.DeviceCapacity", &["requestPolicy"]),
    ("resource/v1.DeviceClassSpec", &["extendedResourceName"]),
    ("resource/v1.DeviceConstraint", &["distinctAttribute"]),
    (
        "resource/v1.DeviceRequestAllocationResult",
        &["tolerations", "bindingConditions", "bindingFailureConditions", "shareID", "consumedCapacity"],
    ),
    ("resource/v1.DeviceSubRequest", &["tolerations", "capacity"]),
    ("resource/v1.ExactDeviceRequest", &["tolerations", "capacity"]),
    ("resource/v1.ResourceSliceSpec", &["perDeviceNodeSelection", "sharedCounters"]),
];

/// Drops fields of gates that are off, before validation. A field that the stored object has anywhere may stay everywhere, as upstream has it.
pub fn drop_disabled(new: &mut Obj, old: Option<&Obj>) {
    let mut in_use = Vec::new();
    if let Some(old) = old {
        collect(old, &mut in_use);
    }
    drop_in(new, &in_use);
}

type Used = (TypeRef, FieldId);

fn set(node: &Struct, id: FieldId) -> bool {
    node.field(id).is_some_and(|v| !v.is_null())
}

fn collect(node: &Struct, used: &mut Vec<Used>) {
    let Some(slot) = slot(node.ty()).filter(|s| s.disabled_below) else { return };
    for id in slot.disabled.iter().filter(|id| set(node, **id)) {
        // As many at most as there are fields of gates, however often the object has them.
        if !used.contains(&(node.ty(), *id)) {
            used.push((node.ty(), *id));
        }
    }
    for (_, value) in node.iter() {
        collect_value(value, used);
    }
}

fn collect_value(value: &Value, used: &mut Vec<Used>) {
    match value {
        Value::Struct(inner) => collect(inner, used),
        Value::List(items) => items.iter().for_each(|item| collect_value(item, used)),
        Value::Map(map) => map.iter().for_each(|(_, item)| collect_value(item, used)),
        _ => {}
    }
}

fn drop_in(node: &mut Struct, in_use: &[Used]) {
    let Some(slot) = slot(node.ty()).filter(|s| s.disabled_below) else { return };
    for id in &slot.disabled {
        if set(node, *id) && !in_use.contains(&(node.ty(), *id)) {
            node.remove(*id);
        }
    }
    for (_, value) in node.iter_mut() {
        drop_value(value, in_use);
    }
}

fn drop_value(value: &mut Value, in_use: &[Used]) {
    match value {
        Value::Struct(inner) => drop_in(inner, in_use),
        Value::List(items) => items.iter_mut().for_each(|item| drop_value(item, in_use)),
        Value::Map(map) => map.iter_mut().for_each(|(_, item)| drop_value(item, in_use)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(strategy: bool) -> Obj {
        let resource = oarlock_schema::resource("coordination.k8s.io", "v1", "leases").unwrap();
        let mut lease = Obj::new(resource.ty);
        lease.set_at(&["spec", "holderIdentity"], "me");
        if strategy {
            lease.set_at(&["spec", "strategy"], "OldestEmulationVersion");
        }
        lease
    }

    #[test]
    fn drops_a_field_whose_gate_is_off() {
        let mut new = lease(true);
        drop_disabled(&mut new, None);
        assert_eq!(new, lease(false));
        let mut new = lease(true);
        drop_disabled(&mut new, Some(&lease(false)));
        assert_eq!(new, lease(false));
    }

    #[test]
    fn keeps_what_the_stored_object_has() {
        let mut new = lease(true);
        drop_disabled(&mut new, Some(&lease(true)));
        assert_eq!(new, lease(true));
    }
}
