//! Our parts on upstream's API server.

use oarlock_testkit::{Peer, Process};

use super::{oarlock, programs, story, unexplained};

/// Two simulated nodes on upstream's API server.
fn kubelets(peer: &Peer) -> Process {
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
    let mut command = oarlock(&["scheduler", "--kubeconfig"]);
    command.arg(peer.component_kubeconfig("kube-scheduler"));
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
    let mut command = oarlock(&["controller-manager", "--kubeconfig"]);
    command.arg(peer.component_kubeconfig("kube-controller-manager"));
    let manager = Process::start(command, "controller-manager");
    let kubectl = peer.kubectl();
    kubectl.until("get serviceaccount default -o name", |_| true);
    story::tell(&kubectl);
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
