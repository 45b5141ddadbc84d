//! Cloud controller managers before a cloud that records its effects (check X1): everything is done once, whatever happens to the holder of the unit.

mod nodes;
mod once;
mod provider;

use std::collections::BTreeMap;

use oarlock_check::effects::judge;
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process};
use serde_json::{Value, json};

pub(crate) use provider::FakeCloud;

/// A cloud controller manager in a process of its own.
fn manager(cluster: &Cluster, cloud: &FakeCloud, more: &[&str]) -> Process {
    let mut command = oarlock_testkit::part("cloud-controller-manager");
    let kubeconfig = cluster.data_dir().component_kubeconfig("cloud-controller-manager");
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["--cloud-provider-endpoint", &cloud.url(), "--cluster-name", "test"]).args(more);
    Process::start(command, "cloud-controller-manager")
}

/// A node as a kubelet with `--cloud-provider=external` makes it.
fn make_node(cluster: &Cluster, name: &str) {
    let taint =
        json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}});
    let http = cluster.http(oarlock_testkit::http::Who::Admin);
    let answer = http.json("POST", "/api/v1/nodes", &node);
    assert_eq!(answer.code, 201, "{answer}");
}

fn get(cluster: &Cluster, what: &str) -> Value {
    serde_json::from_str(&cluster.kubectl().ok(&format!("get {what} -o json"))).unwrap()
}

/// Waits until an object is so.
fn until(cluster: &Cluster, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let object = get(cluster, what);
        if wanted(&object) { Ok(object) } else { Err(object.to_string()) }
    })
}

/// Returns the content that each load balancer must have, by the uid of its Service.
pub(crate) fn wanted(services: &[Value], nodes: &str) -> BTreeMap<String, String> {
    let balanced = services.iter().filter(|one| one["spec"]["type"] == "LoadBalancer");
    let each = balanced.map(|service| {
        let uid = service["metadata"]["uid"].as_str().unwrap().to_owned();
        (uid, format!("{} to {nodes}", service["spec"]["ports"][0]["port"]))
    });
    each.collect()
}

/// X1: the effects that the cloud still lacks. A wrong effect stays a violation.
#[track_caller]
pub(crate) fn left(cloud: &FakeCloud, wanted: &BTreeMap<String, String>) -> Vec<String> {
    let (wrong, effects) = cloud.with(|cloud| (judge(&cloud.effects, wanted), cloud.effects.clone()));
    let lasting: Vec<_> = wrong.iter().filter(|text| !text.starts_with("end")).collect();
    assert!(lasting.is_empty(), "X1: {lasting:#?}\n{effects:#?}");
    wrong
}

/// The holder of the unit, and the epoch of its claim.
fn holder(cluster: &Cluster) -> (String, u64) {
    let unit = get(cluster, "assignment cloud");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&unit["spec"]["holderIdentity"]), text(&unit["metadata"]["resourceVersion"]).parse().unwrap())
}
