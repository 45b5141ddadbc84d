//! Upstream's parts on our API server.

use std::process::Command;

use oarlock_testkit::{Cluster, Process};

use super::{programs, story, unexplained};

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

#[test]
fn upstreams_controller_manager() {
    let Some(bin) = programs(&["kube-controller-manager"]) else { return };
    let cluster = Cluster::up(&["--disable", "controller-manager"]);
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
    let manager = Process::start(command, "kube-controller-manager");
    let kubectl = cluster.kubectl();
    kubectl.until("get serviceaccount default -o name", |_| true);
    story::tell(&kubectl);
    story::leads(&kubectl, "kube-controller-manager");
    // Two of its loops write one object: one is refused and tries again, as on its own API server.
    let conflict = "the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(unexplained(&manager.said(), &[conflict]), [""; 0]);
}
