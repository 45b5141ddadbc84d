//! Nodes, and pods with every kind of constraint.

use std::ops::Range;

use oarlock_client::{Client, DeleteOptions, ListOptions, PatchType, WriteOptions, decode};
use oarlock_runtime::Rng;
use oarlock_schema::resource;
use serde_json::{Value, json};

use super::log::{json as shown, kind};

pub(super) const NODES: usize = 12;
/// Cores of each node.
pub(super) const CORES: usize = 2;
/// Number of pods of half a core that fill the nodes.
pub(super) const ROOM: usize = NODES * CORES * 2;

/// Makes nodes with this many cores each in three zones.
pub(super) async fn nodes(admin: &Client, numbers: Range<usize>, cores: usize) {
    for number in numbers {
        let (name, zone) = (format!("n{number}"), format!("z{}", number % 3));
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        admin.create(kind("nodes"), decode(kind("nodes").ty, node.to_string().as_bytes()).unwrap()).await.unwrap();
        let sizes = json!({"cpu": cores, "memory": "8Gi", "pods": "110"});
        let status = json!({"status": {"capacity": sizes, "allocatable": sizes}}).to_string();
        let patch = (PatchType::Merge, status);
        admin.patch(kind("nodes"), "status", ("", &name), patch, WriteOptions::default()).await.unwrap();
    }
}

/// Returns the app label of a pod: one of twelve kinds of constraints.
fn app(number: usize) -> &'static str {
    match number % 12 {
        0 => "apart",
        1 => "port",
        2 | 3 => "even",
        _ => "plain",
    }
}

/// Priority classes of pods that may preempt others.
const CLASSES: [(&str, i32); 2] = [("middle", 100), ("high", 1_000)];

/// Makes the priority classes.
pub(super) async fn classes(admin: &Client) {
    let classes = resource("scheduling.k8s.io", "v1", "priorityclasses").unwrap();
    for (name, value) in CLASSES {
        let class = json!({"metadata": {"name": name}, "value": value}).to_string();
        admin.create(classes, decode(classes.ty, class.as_bytes()).unwrap()).await.unwrap();
    }
}

fn pod(number: usize, node: Option<&str>, class: Option<&str>) -> Value {
    let app = if node.is_some() { "intruder" } else { app(number) };
    // Two pods must leave for one pod of higher priority, and one of them may end long before the other.
    let cpu = if class.is_some() { "1" } else { "500m" };
    let mut container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}});
    // Every third pod terminates only when [`bury`] deletes it.
    let mut spec = json!({"terminationGracePeriodSeconds": if number.is_multiple_of(3) { 30 } else { 0 }});
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class);
    }
    let selector = json!({"matchLabels": {"app": app}});
    match app {
        "port" => container["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]),
        "apart" => {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
            let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            spec["affinity"] = json!({"podAntiAffinity": terms});
        }
        "even" => {
            spec["topologySpreadConstraints"] = json!([{
                "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }]);
        }
        _ => {}
    }
    spec["containers"] = json!([container]);
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({"metadata": {"name": format!("{app}-{number}"), "namespace": "default", "labels": {"app": app}}, "spec": spec})
}

/// Creates this many pods; `made` counts all pods ever created.
pub(super) async fn create(admin: &Client, made: &mut usize, count: usize) {
    for _ in 0..count {
        *made += 1;
        let pod = pod(*made, None, None).to_string();
        admin.create(kind("pods"), decode(kind("pods").ty, pod.as_bytes()).unwrap()).await.unwrap();
    }
}

/// Creates this many pods of higher priority, which preempt others where nodes are full.
pub(super) async fn rush(admin: &Client, made: &mut usize, count: usize) {
    for number in 0..count {
        *made += 1;
        let class = CLASSES[number % CLASSES.len()].0;
        let pod = pod(*made, None, Some(class)).to_string();
        admin.create(kind("pods"), decode(kind("pods").ty, pod.as_bytes()).unwrap()).await.unwrap();
    }
}

/// Binds a pod to a node without a scheduler.
pub(super) async fn intrude(admin: &Client, made: &mut usize, node: usize) {
    *made += 1;
    let pod = pod(*made, Some(&format!("n{node}")), None).to_string();
    admin.create(kind("pods"), decode(kind("pods").ty, pod.as_bytes()).unwrap()).await.unwrap();
}

/// Returns the name and the node of every pod.
pub(super) async fn pods(admin: &Client) -> Vec<(String, Option<String>)> {
    let list = admin.list(kind("pods"), "default", ListOptions::default()).await.unwrap();
    let each = list.items.iter().map(|object| {
        let node = shown(object)["spec"]["nodeName"].as_str().map(str::to_owned);
        (object.name().to_string(), node)
    });
    each.collect()
}

/// Prints every pod, to show why one is pending.
pub(super) async fn show(admin: &Client) {
    for object in &admin.list(kind("pods"), "default", ListOptions::default()).await.unwrap().items {
        let pod = shown(object);
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let (node, class) = (&spec["nodeName"], &spec["priorityClassName"]);
        let said = status["conditions"].as_array().and_then(|all| all.first()).map(|first| &first["message"]);
        println!("{} on {node} class {class} nominated {} {said:?}", object.name(), status["nominatedNodeName"]);
    }
}

/// Deletes a pod at once. A scheduler may have been faster.
pub(super) async fn delete(admin: &Client, name: &str) {
    match admin.delete(kind("pods"), "default", name, DeleteOptions::default().grace(0)).await {
        Err(status) if !status.is_not_found() => panic!("{status}"),
        _ => {}
    }
}

/// Deletes the terminating pods, as kubelets would in the end; returns their number.
pub(super) async fn bury(admin: &Client) -> usize {
    let list = admin.list(kind("pods"), "default", ListOptions::default()).await.unwrap();
    let leaving = list.items.iter().filter(|object| shown(object)["metadata"]["deletionTimestamp"].is_string());
    let names: Vec<String> = leaving.map(|object| object.name().to_string()).collect();
    for name in &names {
        delete(admin, name).await;
    }
    names.len()
}

/// Deletes one in `one_in` of the bound pods; returns their number.
pub(super) async fn churn(admin: &Client, rng: &mut Rng, one_in: u64) -> usize {
    let mut gone = 0;
    for (name, node) in pods(admin).await {
        if node.is_some() && !name.starts_with("intruder") && rng.chance(1, one_in) {
            delete(admin, &name).await;
            gone += 1;
        }
    }
    gone
}
