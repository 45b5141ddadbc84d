//! Our parts on upstream's API server.

use oarlock_testkit::{Peer, Process};

use super::{daemons, jobs, oarlock, programs, sets, story, unexplained};
use crate::containerd::machine::Machine;
use crate::containerd::{apply, pod, ready, settle, until};

/// Two simulated nodes on upstream's API server.
pub(super) fn kubelets(peer: &Peer) -> Process {
    let mut command = oarlock(&["kubelet", "--runtime", "sim", "--count", "2", "--kubeconfig"]);
    command.arg(peer.kubeconfig()).arg("--data-dir").arg(peer.folder());
    Process::start(command, "kubelet")
}

#[test]
fn our_scheduler() {
    if programs(&["etcd", "kube-apiserver", "kube-controller-manager"]).is_none() {
        return;
    }
    let peer = Peer::up(&["kube-controller-manager"]);
    let kubelets = kubelets(&peer);
    let mut command = oarlock_testkit::part("scheduler");
    command.arg("--kubeconfig").arg(peer.component_kubeconfig("kube-scheduler"));
    let scheduler = Process::start(command, "scheduler");
    story::tell(&peer.kubectl());
    for log in [scheduler.said(), kubelets.said()] {
        assert_eq!(unexplained(&log, &[]), [""; 0]);
    }
}

#[test]
fn our_controllers() {
    if programs(&["etcd", "kube-apiserver", "kube-scheduler"]).is_none() {
        return;
    }
    let peer = Peer::up(&["kube-scheduler"]);
    let kubelets = kubelets(&peer);
    let mut command = oarlock_testkit::part("controller-manager");
    command.arg("--kubeconfig").arg(peer.component_kubeconfig("kube-controller-manager"));
    let manager = Process::start(command, "controller-manager");
    let kubectl = peer.kubectl();
    kubectl.until("get serviceaccount default -o name", |_| true);
    story::tell(&kubectl);
    jobs::tell(&kubectl);
    sets::tell(&kubectl);
    daemons::tell(&kubectl);
    for log in [manager.said(), kubelets.said()] {
        assert_eq!(unexplained(&log, &[]), [""; 0]);
    }
}

#[test]
fn our_kubelet() {
    if programs(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]).is_none() {
        return;
    }
    let peer = Peer::up(&["kube-controller-manager", "kube-scheduler"]);
    let kubelets = kubelets(&peer);
    let kubectl = peer.kubectl();
    story::tell(&kubectl);
    story::leads(&kubectl, "kube-scheduler");
    story::leads(&kubectl, "kube-controller-manager");
    assert_eq!(unexplained(&kubelets.said(), &[]), [""; 0]);
}

#[test]
fn our_kubelet_with_real_containers() {
    if programs(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]).is_none() {
        return;
    }
    let Some(machine) = Machine::start() else { return };
    let manifests = tempfile::tempdir().unwrap();
    let stays = "echo it serves; trap 'exit 0' TERM; sleep 1000 & wait";
    std::fs::write(manifests.path().join("fixed.yaml"), pod("fixed", stays, "", "")).unwrap();
    let peer = Peer::up(&["kube-controller-manager", "kube-scheduler"]);
    let flags = ["--pod-manifest-path", manifests.path().to_str().unwrap()];
    let kubelet = machine.kubelet_of(&peer.kubeconfig(), peer.folder(), "n1", &flags);
    let kubectl = peer.kubectl();
    settle(&kubectl);
    // On upstream's server a static pod also has a mirror pod: the node authorizer and NodeRestriction allow the kubelet to create it.
    until(&kubectl, "fixed-n1", ready);
    std::fs::remove_file(manifests.path().join("fixed.yaml")).unwrap();
    kubectl.until("get pods -o name", |out| out.trim().is_empty());
    story::tell(&kubectl);
    apply(&kubectl, &pod("web", stays, "", ""));
    until(&kubectl, "web", ready);
    kubectl.until_says("logs web", ["it serves"]);
    kubectl.run("exec web -- hostname").is("web");
    kubectl.ok("delete pod web --wait");
    machine.until_clean();
    assert_eq!(unexplained(&machine.kubelet_said(), &[]), [""; 0]);
    drop(kubelet);
}
