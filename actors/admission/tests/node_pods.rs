//! Pods that a kubelet may create and change: mirrors of static pods without references to other objects, and the status of its own pods without the
//! claims that the Node authorizer goes by.

use crate::common::{Ask, World, decode, resource};
use oarlock_admission::Operation;
use serde_json::{Value, json};

fn asked<'a>(operation: Operation, subresource: &'a str, groups: &'a [String]) -> Ask<'a> {
    let resource = resource("pods");
    Ask { operation, resource, subresource, namespace: "n", name: "p", user: "system:node:n1", groups }
}

/// Creates a mirror pod with a volume as the kubelet of its node.
async fn mirror(world: &World, spec: Value) -> Result<(), String> {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true});
    let metadata =
        json!({"name": "p", "annotations": {"kubernetes.io/config.mirror": "h"}, "ownerReferences": [owner]});
    let mut spec = spec;
    spec["nodeName"] = json!("n1");
    spec["containers"] = json!([{"name": "c", "image": "i"}]);
    let pod = decode(&json!({"metadata": metadata, "spec": spec}), resource("pods").ty);
    let groups = ["system:nodes".to_owned()];
    let done = world.ask(&asked(Operation::Create, "", &groups), Some(pod), None).await;
    done.map(|_| ()).map_err(|status| status.message)
}

#[tokio::test]
async fn a_mirror_pod_refers_to_no_other_object() {
    let world = World::with_namespace("n");
    world.put("nodes", &json!({"metadata": {"name": "n1", "uid": "u1"}}));
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        json!({"volumes": [volume]})
    };
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let refers =
        |what: &str| Err(format!("pods \"p\" is forbidden: node \"n1\" can not create pods that reference {what}"));
    let token = "pods \"p\" is forbidden: a mirror pod may not use ServiceAccountToken volume projections".to_owned();
    for (spec, expected) in [
        (json!({}), Ok(())),
        (volume(json!({"hostPath": {"path": "/a"}})), Ok(())),
        (volume(json!({"emptyDir": {}})), Ok(())),
        (projected(json!({"downwardAPI": {"items": []}})), Ok(())),
        (
            volume(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})),
            refers("persistentvolumeclaims (via ephemeral volumes)"),
        ),
        (volume(json!({"csi": {"driver": "d"}})), refers("csidrivers (via CSI volumes)")),
        (volume(json!({"glusterfs": {"endpoints": "e", "path": "p"}})), refers("endpoints (via glusterFS volumes)")),
        (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), refers("persistentvolumeclaims")),
        (volume(json!({"configMap": {"name": "c"}})), refers("configmaps")),
        (projected(json!({"clusterTrustBundle": {"path": "p", "name": "b"}})), refers("clustertrustbundles")),
        (projected(json!({"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}})), refers("podcertificates")),
        (projected(json!({"serviceAccountToken": {"path": "t"}})), Err(token)),
        (json!({"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}), refers("resourceclaims")),
    ] {
        assert_eq!(mirror(&world, spec.clone()).await, expected, "{spec}");
    }
}

#[tokio::test]
async fn a_kubelet_does_not_name_the_claims_of_its_pods() {
    let world = World::with_namespace("n");
    let pod = |status: Value| {
        let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]});
        decode(
            &json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status}),
            resource("pods").ty,
        )
    };
    let old = pod(json!({"phase": "Pending"}));
    let groups = ["system:nodes".to_owned()];
    for (status, expected) in [
        (json!({"phase": "Running"}), Ok(())),
        (json!({"phase": "Running", "resourceClaimStatuses": []}), Ok(())),
        (
            json!({"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "secret"}]}),
            Err("cannot update resource claim statues"),
        ),
        (
            json!({"extendedResourceClaimStatus": {"resourceClaimName": "secret", "requestMappings": []}}),
            Err("cannot update extended resource claim status"),
        ),
    ] {
        let done = world.ask(&asked(Operation::Update, "status", &groups), Some(pod(status.clone())), Some(&old)).await;
        let expected = expected.map_err(|why| format!("pods \"p\" is forbidden: node \"n1\" {why}"));
        assert_eq!(done.map(|_| ()).map_err(|status| status.message), expected, "{status}");
    }
}
