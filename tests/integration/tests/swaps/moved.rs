//! StatefulSets and DaemonSets that move from one controller manager to another: no pod is replaced, no revision is made, and no status is written.

use std::collections::BTreeMap;
use std::process::Command;

use oarlock_testkit::{Cluster, Kubectl, Peer, Process};
use serde_json::{Value, json};

use super::sets::{create, read, rolled_out};
use super::theirs::their_manager;
use super::{daemons, ours, programs};

/// Creates sets at rest: one with a partition amid an update, one that was rolled back, one with claims.
fn prepare(kubectl: &Kubectl) {
    let partition =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, "replicas": 2});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    create(kubectl, "halfway", partition);
    create(kubectl, "back", json!({"replicas": 1}));
    create(kubectl, "disk", json!({"volumeClaimTemplates": [claim], "replicas": 1}));
    for name in ["halfway", "back"] {
        rolled_out(kubectl, name);
        kubectl.ok(&format!("set image statefulset {name} main=new:1"));
        rolled_out(kubectl, name);
    }
    kubectl.ok("rollout undo statefulset back");
    rolled_out(kubectl, "back");
    kubectl.until("get pods -l app=disk -o name", |out| out.trim() == "pod/disk-0");
    for name in ["agent", "renewed"] {
        daemons::create(kubectl, name, json!({}));
        daemons::rolled_out(kubectl, name);
    }
    kubectl.ok("set image daemonset renewed main=new:1");
    daemons::rolled_out(kubectl, "renewed");
}

/// Returns the sets and revisions with their resourceVersions, and the uids of pods and claims.
fn state(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for (kind, field) in [
        ("statefulsets", "resourceVersion"),
        ("daemonsets", "resourceVersion"),
        ("controllerrevisions", "resourceVersion"),
        ("pods", "uid"),
        ("persistentvolumeclaims", "uid"),
    ] {
        for item in read(kubectl, kind)["items"].as_array().unwrap() {
            let meta = &item["metadata"];
            if meta["labels"]["app"] != "canary" && meta["name"] != "canary" {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                state.insert(format!("{kind}/{}", text(&meta["name"])), text(&meta[field]));
            }
        }
    }
    state
}

/// Waits until the new manager works: it creates the pods of new sets, after it has looked at all sets that were there.
fn works(kubectl: &Kubectl) {
    create(kubectl, "canary", json!({"replicas": 2}));
    rolled_out(kubectl, "canary");
    daemons::create(kubectl, "canary", json!({}));
    daemons::rolled_out(kubectl, "canary");
}

#[test]
fn from_upstreams_manager_to_ours() {
    if programs(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]).is_none() {
        return;
    }
    let peer = Peer::up(&["kube-controller-manager", "kube-scheduler"]);
    let kubelets = ours::kubelets(&peer);
    let kubectl = peer.kubectl();
    kubectl.until("get serviceaccount default -o name", |_| true);
    prepare(&kubectl);
    let before = state(&kubectl);
    peer.end("kube-controller-manager");
    let mut command = oarlock_testkit::part("controller-manager");
    command.arg("--kubeconfig").arg(peer.component_kubeconfig("kube-controller-manager"));
    let manager = Process::start(command, "controller-manager");
    works(&kubectl);
    assert_eq!(state(&kubectl), before, "{}", manager.said());
    drop(kubelets);
}

#[test]
fn from_our_manager_to_upstreams() {
    let Some(bin) = programs(&["kube-controller-manager"]) else { return };
    let cluster = Cluster::up(&["--disable", "controller-manager"]);
    let kubectl = cluster.kubectl();
    let mut command: Command = oarlock_testkit::part("controller-manager");
    command.arg("--kubeconfig").arg(cluster.data_dir().component_kubeconfig("controller-manager"));
    let mut ours = Process::start(command, "controller-manager");
    kubectl.until("get serviceaccount default -o name", |_| true);
    prepare(&kubectl);
    let before = state(&kubectl);
    ours.kill();
    let theirs = their_manager(&cluster, &bin);
    works(&kubectl);
    assert_eq!(state(&kubectl), before, "{}", theirs.said());
}
