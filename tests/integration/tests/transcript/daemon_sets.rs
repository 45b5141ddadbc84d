//! Commands about DaemonSets: their life on two nodes, a node that joins and leaves, a drain.

use std::process::Command;

use oarlock_testkit::{Cluster, Process, port};

use super::crew::{WAIT, await_nodes};
use crate::swaps::daemons;

#[test]
fn daemon_sets_live_their_lives() {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    daemons::tell(&kubectl);
}

#[test]
fn a_node_that_joins_gets_its_pod_and_a_drain_leaves_daemons_alone() {
    let cluster = Cluster::up(&[]);
    let kubectl = cluster.kubectl();
    await_nodes(&kubectl);
    let mut nodes = daemons::nodes(&kubectl);
    let manifest = daemons::manifest("log", serde_json::json!({}));
    kubectl.run_with("create -f -", &manifest).is("daemonset.apps/log created");
    daemons::rolled_out(&kubectl, "log");
    let mut command = Command::new(oarlock_testkit::oarlock());
    command.args(["kubelet", "--runtime", "sim", "--node-name", "apart", "--port", &port::own().to_string()]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--data-dir").arg(cluster.data_dir().root());
    let mut kubelet = Process::start(command, "kubelet");
    nodes.insert(0, "apart".to_owned());
    daemons::runs_on(&kubectl, "log", &nodes);
    daemons::rolled_out(&kubectl, "log");
    kubectl.run("get daemonset log --no-headers").says(["log   3     3     3     3     3     <none>"]);
    let uids = "get pods -l app=log --field-selector spec.nodeName=apart -o jsonpath={.items[*].metadata.uid}";
    let before = kubectl.ok(uids);
    let drained = kubectl.run(&format!("drain apart --ignore-daemonsets {WAIT}")).says(["node/apart drained"]);
    assert!(drained.err.contains("ignoring DaemonSet-managed Pods: default/log-"), "{drained}");
    assert_eq!(kubectl.ok(uids), before);
    kubelet.kill();
    kubectl.ok("delete node apart");
    kubectl.until("get daemonset log -o jsonpath={.status.desiredNumberScheduled}", |out| out.trim() == "2");
    kubectl.run("describe daemonset log").says([
        "Desired Number of Nodes Scheduled: 2",
        "Pod Template:",
        "SuccessfulCreate",
        "Created pod: log-",
    ]);
}
