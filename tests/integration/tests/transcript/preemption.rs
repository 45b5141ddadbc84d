//! A full node, and a pod of higher priority than those on the node.

use oarlock_testkit::{Cluster, Kubectl};
use serde_json::json;

use super::crew::{WAIT, await_nodes};

/// Runs a pod that requests this many milli-cores; a finalizer keeps the deleted pod visible.
fn run(kubectl: &Kubectl, name: &str, milli: u64, class: Option<&str>) {
    let container = json!({"name": name, "image": "nginx", "resources": {"requests": {"cpu": format!("{milli}m")}}});
    let mut overrides = json!({
        "metadata": {"finalizers": ["example.com/seen"]},
        "spec": {"containers": [container]},
    });
    if let Some(class) = class {
        overrides["spec"]["priorityClassName"] = json!(class);
    }
    kubectl.run(&format!("run {name} --image=nginx --overrides='{overrides}'")).is(&format!("pod/{name} created"));
}

#[test]
fn a_full_node_makes_room_for_a_pod_of_higher_priority() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    kubectl.run("cordon node-1").is("node/node-1 cordoned");
    let cores = kubectl.ok("get node node-0 -o jsonpath={.status.allocatable.cpu}");
    let half = cores.trim().parse::<u64>().unwrap() * 500;
    kubectl.run("create priorityclass lower --value=-10").is("priorityclass.scheduling.k8s.io/lower created");
    kubectl.run("create priorityclass high --value=1000").is("priorityclass.scheduling.k8s.io/high created");
    run(&kubectl, "low", half, None);
    run(&kubectl, "lower", half, Some("lower"));
    kubectl
        .run(&format!("wait --for=condition=Ready pod/low pod/lower {WAIT}"))
        .says(["pod/low condition met", "pod/lower condition met"]);
    // A pod of the same priority preempts no pod.
    run(&kubectl, "late", half, Some("lower"));
    kubectl.until_says(
        "get events --field-selector involvedObject.name=late,reason=FailedScheduling",
        ["0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."],
    );
    run(&kubectl, "high", half, Some("high"));
    kubectl.run(&format!("wait --for=condition=PodScheduled pod/high {WAIT}")).is("pod/high condition met");
    kubectl.run("get pod high -o jsonpath={.spec.nodeName}/{.status.nominatedNodeName}").is("node-0/");
    kubectl.run(&format!("wait --for=condition=Ready pod/high {WAIT}")).is("pod/high condition met");
    let uid = kubectl.ok("get pod high -o jsonpath={.metadata.uid}");
    kubectl.until_says(
        "get events --field-selector reason=Preempted",
        ["Normal", "pod/lower", &format!("Preempted by pod {} on node node-0", uid.trim())],
    );
    kubectl.run("get pod lower -o jsonpath='{.status.conditions[?(@.type==\"DisruptionTarget\")]}'").says([
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
        "True",
    ]);
    kubectl.run("get pod lower -o jsonpath={.metadata.deletionTimestamp}").says(["Z"]);
    kubectl.ok("patch pod lower -p '{\"metadata\":{\"finalizers\":null}}'");
    kubectl.until("get pods -o name", |out| !out.contains("pod/lower"));
    // Preempting the pod of the lowest priority was enough.
    kubectl.run("get pod low --no-headers").says(["1/1", "Running"]);
    kubectl.run("get pod late --no-headers").says(["0/1", "Pending"]);
}
