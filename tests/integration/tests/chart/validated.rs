//! What an API server says to the rendered manifests.

use oarlock_testkit::{Cluster, Kubectl};
use serde_json::Value;

use super::helm::{EVERYTHING, Helm, MODES, objects, repository};

/// Sends every object to a server, which checks and admits it and stores nothing.
#[track_caller]
fn accepted(kubectl: &Kubectl, objects: &[Value]) {
    // A pod needs its account, which a dry run does not make.
    let accounts: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "ServiceAccount").collect();
    let accounts = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": accounts});
    let _ = kubectl.run_with("apply -n hosted -f -", &accounts.to_string()).ok();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let ran = kubectl.run_with("apply --dry-run=server --validate=strict -n hosted -f -", &list.to_string()).ok();
    assert_eq!(ran.out.lines().count(), objects.len(), "{ran}");
    // The Pod Security Standard, among others, speaks in warnings.
    assert!(!ran.err.contains("Warning"), "{ran}");
}

#[track_caller]
pub(super) fn all(helm: &Helm, kubectl: &Kubectl) {
    kubectl.ok("create namespace hosted");
    kubectl.ok("label namespace hosted pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted");
    for (mode, _) in MODES {
        accepted(kubectl, &helm.mode(mode, &[]));
    }
    let sets: [&[&str]; 2] =
        [&EVERYTHING, &["etcd.persistence.enabled=false", "nats.enabled=false", "api.service.type=LoadBalancer"]];
    for more in sets {
        accepted(kubectl, &helm.mode("full", more));
    }
    // The tunnel's agent of a hosted cluster, in this namespace in place of that which its manifest makes.
    let agent = std::fs::read_to_string(repository("docs/operations/tunnel/agent.yaml")).unwrap();
    let mut agent = objects(&agent);
    agent.retain(|object| object["kind"] != "Namespace");
    agent.iter_mut().for_each(|object| object["metadata"]["namespace"] = "hosted".into());
    assert_eq!(agent.len(), 2);
    accepted(kubectl, &agent);
}

#[test]
fn our_api_server_takes_every_manifest_as_it_stands() {
    let Some(helm) = Helm::new() else { return };
    let cluster = Cluster::api_only();
    all(&helm, &cluster.kubectl());
}
