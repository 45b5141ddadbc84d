//! Fields of disabled feature gates, compared with the fields that a live upstream 1.35 keeps on write.

use crate::common;
use oarlock_apis::DisabledFields;
use serde_json::{Value, json};

/// Returns the written `status.containerStatuses[0]`.
fn container() -> Value {
    json!({"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0, "allocatedResources": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}}, "stopSignal": "SIGTERM", "user": {"linux": {"uid": 1, "gid": 1}},
        "allocatedResourcesStatus": [{"name": "claim:x", "resources": [{"resourceID": "r", "health": "Healthy"}]}]})
}

fn rows() -> Vec<(Value, Vec<(&'static str, bool)>)> {
    let claim =
        |spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": spec}});
    let request = json!({"deviceClassName": "c", "tolerations": [{"key": "a", "operator": "Exists"}], "capacity": {"requests": {"c": "1"}}});
    vec![
        (
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"workloadRef": {"name": "w", "podGroup": "g"}, "hostnameOverride": "h",
                "containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}}],
                "volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}},
                    {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519"}}]}}]}}),
            vec![
                ("/spec/workloadRef", false),
                ("/spec/hostnameOverride", true),
                ("/spec/containers/0/lifecycle", false),
                ("/spec/volumes/0/projected/sources/0/clusterTrustBundle", false),
                ("/spec/volumes/0/projected/sources/1/podCertificate", false),
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [
                {"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}}]}}),
            vec![("/spec/containers/0/lifecycle/preStop", true), ("/spec/containers/0/lifecycle/stopSignal", false)],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "status": {"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}},
                "extendedResourceClaimStatus": {"resourceClaimName": "x"}, "containerStatuses": [container()],
                "initContainerStatuses": [container()], "ephemeralContainerStatuses": [container()]}}),
            vec![
                ("/status/allocatedResources", false),
                ("/status/resources", false),
                ("/status/extendedResourceClaimStatus", false),
                ("/status/containerStatuses/0/allocatedResources", true),
                ("/status/containerStatuses/0/resources", true),
                ("/status/containerStatuses/0/stopSignal", true),
                ("/status/containerStatuses/0/user", true),
                ("/status/containerStatuses/0/allocatedResourcesStatus", false),
                ("/status/initContainerStatuses/0/allocatedResources", true),
                ("/status/ephemeralContainerStatuses/0/allocatedResources", true),
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Node", "status": {"declaredFeatures": ["A"], "features": {"supplementalGroupsPolicy": true},
                "runtimeHandlers": [{"name": "x", "features": {"userNamespaces": true}}]}}),
            vec![
                ("/status/declaredFeatures", false),
                ("/status/features", true),
                ("/status/runtimeHandlers/0/features/userNamespaces", true),
            ],
        ),
        (
            claim(json!({"requests": [{"name": "r", "exactly": request}, {"name": "q", "firstAvailable": [request]}],
                "constraints": [{"requests": ["r"], "distinctAttribute": "a.b/c"}]})),
            vec![
                ("/spec/devices/requests/0/exactly/tolerations", false),
                ("/spec/devices/requests/0/exactly/capacity", false),
                ("/spec/devices/requests/1/firstAvailable/0/tolerations", false),
                ("/spec/devices/requests/1/firstAvailable/0/capacity", false),
                ("/spec/devices/constraints/0/distinctAttribute", false),
            ],
        ),
        (
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "status": {
                "allocation": {"allocationTimestamp": "2026-01-01T00:00:00Z", "devices": {"results": [{"request": "r", "driver": "d",
                    "pool": "p", "device": "d", "tolerations": [{"key": "a"}], "bindingConditions": ["A"], "bindingFailureConditions": ["B"],
                    "shareID": "u", "consumedCapacity": {"c": "1"}, "adminAccess": false}]}},
                "devices": [{"driver": "d", "pool": "p", "device": "d", "shareID": "u"}]}}),
            vec![
                ("/status/allocation/allocationTimestamp", true),
                ("/status/allocation/devices/results/0/tolerations", true),
                ("/status/allocation/devices/results/0/adminAccess", true),
                ("/status/allocation/devices/results/0/bindingConditions", false),
                ("/status/allocation/devices/results/0/bindingFailureConditions", false),
                ("/status/allocation/devices/results/0/shareID", false),
                ("/status/allocation/devices/results/0/consumedCapacity", false),
                ("/status/devices/0/shareID", false),
            ],
        ),
        (
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {"sharedCounters": [{"name": "c"}],
                "perDeviceNodeSelection": true, "devices": [{"name": "d", "taints": [{"key": "a"}], "bindsToNode": true,
                    "bindingConditions": ["A"], "bindingFailureConditions": ["B"], "allowMultipleAllocations": true, "nodeName": "n",
                    "consumesCounters": [{"counterSet": "c"}], "capacity": {"c": {"value": "5", "requestPolicy": {"default": "1"}}}}]}}),
            vec![
                ("/spec/sharedCounters", false),
                ("/spec/perDeviceNodeSelection", false),
                ("/spec/devices/0/taints", false),
                ("/spec/devices/0/bindsToNode", false),
                ("/spec/devices/0/bindingConditions", false),
                ("/spec/devices/0/bindingFailureConditions", false),
                ("/spec/devices/0/allowMultipleAllocations", false),
                ("/spec/devices/0/nodeName", false),
                ("/spec/devices/0/consumesCounters", false),
                ("/spec/devices/0/capacity/c/value", true),
                ("/spec/devices/0/capacity/c/requestPolicy", false),
            ],
        ),
        (
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {"extendedResourceName": "example.com/x"}}),
            vec![("/spec/extendedResourceName", false)],
        ),
        (
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "status": {"observedGeneration": 5,
                "conditions": [{"type": "A", "status": "True", "observedGeneration": 6}]}}),
            vec![("/status/observedGeneration", true), ("/status/conditions/0/observedGeneration", true)],
        ),
        (
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "spec": {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x", "namespace": "other"}}}),
            vec![("/spec/dataSourceRef", false)],
        ),
        (
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x"}}}),
            vec![("/spec/dataSourceRef", true)],
        ),
    ]
}

#[test]
fn what_gates_leave_out_is_what_upstream_leaves_out() {
    let disabled = DisabledFields::default();
    for (written, fields) in rows() {
        let (_, mut obj) = common::obj(&written);
        disabled.drop(&mut obj, None);
        let kept: Value = serde_json::from_slice(&oarlock_codec::json::encode(&obj).bytes).unwrap();
        for (field, stays) in fields {
            assert!(written.pointer(field).is_some(), "{field} is not written");
            assert_eq!(kept.pointer(field).is_some(), stays, "{}{field}", written["kind"]);
        }
    }
}
