//! Tokens that a kubelet may request: for audiences that its pods or the drivers of their volumes declare (upstream's source:
//! `podReferencesAudience`).

use crate::common::{Ask, Only, World, decode, resource};
use oarlock_admission::Operation;
use serde_json::{Value, json};

/// A kubelet's request for a token of the account `robot`, bound to a pod.
async fn ask(world: &World, pod: &str, audiences: Value) -> Result<(), String> {
    let row = resource("serviceaccounts");
    let groups = ["system:nodes".to_owned()];
    let ask = Ask {
        operation: Operation::Create,
        resource: row,
        subresource: "token",
        namespace: "n",
        name: "robot",
        user: "system:node:n1",
        groups: &groups,
    };
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod});
    let body = json!({"spec": {"audiences": audiences, "boundObjectRef": bound}});
    let ty = row.subresource("token").unwrap().ty.unwrap();
    world.ask(&ask, Some(decode(&body, ty)), None).await.map(|_| ()).map_err(|status| status.message)
}

fn world(volumes: Value) -> World {
    let world = World::with_namespace("n");
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    world.put("pods", &json!({"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": spec}));
    for (claim, volume) in [("data", "v"), ("p-scratch", "v"), ("plain", "w"), ("unbound", "")] {
        let spec = json!({"volumeName": volume, "accessModes": ["ReadWriteOnce"]});
        world.put("persistentvolumeclaims", &json!({"metadata": {"name": claim, "namespace": "n"}, "spec": spec}));
    }
    world.put(
        "persistentvolumes",
        &json!({"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}),
    );
    world.put("persistentvolumes", &json!({"metadata": {"name": "w"}, "spec": {"hostPath": {"path": "/a"}}}));
    world.put("csidrivers", &json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "driver"}]}}));
    world
}

fn refused(audience: &str) -> Result<(), String> {
    let text = "not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience";
    Err(format!("serviceaccounts \"robot\" is forbidden: audience \"{audience}\" {text}"))
}

#[tokio::test]
async fn audiences_are_those_that_the_pods_volumes_need() {
    let projected = |audience: &str| json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": audience}}]}}]);
    let claimed = |claim: &str| json!([{"name": "c", "persistentVolumeClaim": {"claimName": claim}}]);
    let own = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    let inline = json!([{"name": "c", "csi": {"driver": "d"}}]);
    for (volumes, audiences, expected) in [
        (projected("vault"), json!(["vault"]), Ok(())),
        (projected("vault"), json!(["driver"]), refused("driver")),
        // No audience means the server's own, which the pod must declare too.
        (projected("vault"), json!([]), refused("")),
        (projected(""), json!([]), Ok(())),
        (json!([]), json!([]), refused("")),
        (inline, json!(["driver"]), Ok(())),
        (claimed("data"), json!(["driver"]), Ok(())),
        (claimed("data"), json!(["vault"]), refused("vault")),
        (own, json!(["driver"]), Ok(())),
        (claimed("plain"), json!(["driver"]), refused("driver")),
        (claimed("unbound"), json!(["driver"]), refused("driver")),
        (claimed("missing"), json!(["driver"]), refused("driver")),
    ] {
        let answer = ask(&world(volumes.clone()), "p", audiences.clone()).await;
        assert_eq!(answer, expected, "{volumes} {audiences}");
    }
}

#[tokio::test]
async fn a_right_to_an_audience_stands_for_the_pods_wish() {
    let mut world = world(json!([]));
    world.rights = Some(Only("request-serviceaccounts-token-audience", "vault", Some("robot")));
    assert_eq!(ask(&world, "p", json!(["vault"])).await, Ok(()));
    assert_eq!(ask(&world, "p", json!(["other"])).await, refused("other"));
}
