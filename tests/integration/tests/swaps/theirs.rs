//! Upstream's parts on our API server.

use std::path::Path;
use std::process::Command;

use oarlock_testkit::{Cluster, Process};

use super::{daemons, jobs, programs, sets, story, unexplained};
use crate::containerd::machine::Machine;
use crate::containerd::{apply, pod, ready, settled, until};

#[test]
fn upstreams_scheduler() {
    let Some(bin) = programs(&["kube-scheduler"]) else { return };
    let cluster = Cluster::up(&["--disable", "scheduler"]);
    let kubeconfig = cluster.data_dir().component_kubeconfig("scheduler");
    let mut command = Command::new(bin.join("kube-scheduler"));
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    command.arg("--secure-port=0");
    let scheduler = Process::start(command, "kube-scheduler");
    let kubectl = cluster.kubectl();
    story::tell(&kubectl);
    story::leads(&kubectl, "kube-scheduler");
    assert_eq!(unexplained(&scheduler.said(), &[]), [""; 0]);
}

/// Starts upstream's controller manager on our API server.
pub(super) fn their_manager(cluster: &Cluster, bin: &Path) -> Process {
    let (kubeconfig, pki) = (cluster.data_dir().component_kubeconfig("controller-manager"), cluster.data_dir().pki());
    let mut command = Command::new(bin.join("kube-controller-manager"));
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    for (flag, file) in [
        ("service-account-private-key-file", "sa.key"),
        ("root-ca-file", "ca.crt"),
        ("cluster-signing-cert-file", "ca.crt"),
        ("cluster-signing-key-file", "ca.key"),
    ] {
        command.arg(format!("--{flag}={}", pki.join(file).display()));
    }
    command.args(["--use-service-account-credentials", "--secure-port=0"]);
    Process::start(command, "kube-controller-manager")
}

#[test]
fn upstreams_controller_manager() {
    let Some(bin) = programs(&["kube-controller-manager"]) else { return };
    let cluster = Cluster::up(&["--disable", "controller-manager"]);
    let manager = their_manager(&cluster, &bin);
    let kubectl = cluster.kubectl();
    kubectl.until("get serviceaccount default -o name", |_| true);
    story::tell(&kubectl);
    jobs::tell(&kubectl);
    sets::tell(&kubectl);
    daemons::tell(&kubectl);
    story::leads(&kubectl, "kube-controller-manager");
    // Two loops of the manager write one object: one write is refused and repeated, as on upstream's API server.
    let conflict = "the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(unexplained(&manager.said(), &[conflict]), [""; 0]);
}

/// Errors that upstream's kubelet logs with any API server.
const OF_KUBELETS: [&str; 13] = [
    // Containerd before version 2 lacks this call; the kubelet uses its own configuration.
    "RuntimeConfig from runtime service failed",
    // During the start the kubelet has not examined any container yet.
    "Skipping pod synchronization",
    // During the start the kubelet reads from its cache the Node that it has just created or will create.
    "Error getting the current node from lister",
    "Error updating node status, will retry",
    "Failed to get node when trying to set owner ref to the node lease",
    "Eviction manager: failed to get summary stats",
    // A new root directory contains no checkpoints.
    "Failed to read data from checkpoint",
    // Test machines are shared: they have processes and file systems that the kubelet does not expect.
    "Failed to ensure process in container with oom score",
    "failed to check if we have separate container filesystem",
    // A command ended while the end of its stdin was on the way.
    "Error proxying data from client to backend",
    // The kubelet examines containers and pods that it has just removed.
    "ContainerStatus from runtime service failed",
    "DeleteContainer returned error",
    "StopPodSandbox from runtime service failed",
];

#[test]
fn upstreams_kubelet() {
    let Some(bin) = programs(&["kubelet"]) else { return };
    let Some(machine) = Machine::start() else { return };
    let cluster = Cluster::up(&["--disable", "kubelet"]);
    let kubelet = machine.upstreams_kubelet(&bin.join("kubelet"), &cluster, "n1");
    let kubectl = settled(&cluster);
    story::tell(&kubectl);
    // Our API server connects to the containers of upstream's kubelet.
    apply(&kubectl, &pod("web", "echo it serves; trap 'exit 0' TERM; sleep 1000 & wait", "", ""));
    until(&kubectl, "web", ready);
    kubectl.until_says("logs web", ["it serves"]);
    kubectl.run("exec web -- hostname").is("web");
    kubectl.run_with("exec -i web -- cat", "there and back\n").is("there and back");
    kubectl.ok("delete pod web --wait");
    assert_eq!(unexplained(&kubelet.said(), &OF_KUBELETS), [""; 0]);
    machine.until_clean();
}
