//! The node of compose.yaml whose containers are real.

use std::fs::File;
use std::process::Command;

use oarlock_testkit::Kubectl;
use oarlock_testkit::wait::eventually;
use serde_json::json;

use super::apply;
use super::images::{self, BUSYBOX};
use super::machine::on_path;
use crate::faults::compose::Compose;

const NODE: &str = "containerd-node";

/// Loads the images into the node, which would pull them otherwise.
fn import(container: &str) {
    let folder = tempfile::tempdir().unwrap();
    let archive = images::archive(folder.path(), &on_path("busybox").unwrap());
    let mut import = Command::new("docker");
    import.args(["exec", "-i", container, "ctr", "-n", "k8s.io", "images", "import", "-"]);
    let ran = import.stdin(File::open(archive).unwrap()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Returns the containers that containerd lists.
fn containers(compose: &Compose) -> String {
    compose.compose(&["exec", "-T", NODE, "ctr", "-n", "k8s.io", "containers", "list", "-q"]).unwrap()
}

#[test]
fn a_node_of_compose_runs_real_containers_and_outlives_the_end_of_its_own() {
    let Ok(compose) =
        Compose::up("containerd").map_err(|why| oarlock_testkit::skipped!("{why}: no node of compose was tried"))
    else {
        return;
    };
    let container = compose.container(&format!("{NODE}-1"));
    eventually("containerd answers", || compose.compose(&["exec", "-T", NODE, "ctr", "version"]));
    import(&container);
    let kubectl = Kubectl::new(&compose.kubeconfig());
    kubectl.ok(&format!("wait --for=condition=Ready node/{NODE} --timeout=60s"));
    let page = "echo hello > /tmp/index.html; echo serves; exec httpd -f -p 8080 -h /tmp";
    let web = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": NODE}, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "web", "image": BUSYBOX, "command": ["sh", "-c", page]}]}});
    apply(&kubectl, &web.to_string());
    kubectl.ok("wait --for=condition=Ready pod/web --timeout=60s");
    kubectl.until("logs web", |said| said == "serves\n");
    kubectl.until("exec web -- wget -qO- http://127.0.0.1:8080", |said| said == "hello\n");

    // The pod's processes end with the node's container; the pod runs again after the restart of the node.
    compose.compose(&["kill", NODE]).unwrap();
    compose.compose(&["start", NODE]).unwrap();
    kubectl.until("get pod web -o jsonpath={.status.containerStatuses[0].restartCount}", |said| said == "1");
    kubectl.until("exec web -- wget -qO- http://127.0.0.1:8080", |said| said == "hello\n");

    kubectl.ok("delete pod web --timeout=60s");
    eventually("nothing of it is left", || match containers(&compose) {
        none if none.is_empty() => Ok(()),
        left => Err(left),
    });
}
