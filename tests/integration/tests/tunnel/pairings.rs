//! Our server and agent with upstream's, in every pairing and mode.

use oarlock_konnectivity::Mode;
use oarlock_testkit::Peer;

use super::programs::{Maker, Tunnel};
use super::story;
use crate::containerd::machine::Machine;
use crate::containerd::{apply, pod, ready, settle, until};

/// Upstream's programs; `None` where they cannot be built.
fn upstream() -> Option<Maker> {
    crate::swaps::programs(&["konnectivity-server", "konnectivity-agent"]).map(Maker::Upstream)
}

#[tokio::test]
async fn our_server_serves_upstreams_agent() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(Maker::Oarlock, theirs.clone(), mode).await;
    }
}

#[tokio::test]
async fn our_agent_serves_upstreams_server() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(theirs.clone(), Maker::Oarlock, mode).await;
    }
}

#[tokio::test]
async fn our_client_uses_upstreams_server_and_agent() {
    let Some(theirs) = upstream() else { return };
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        story::tell(theirs.clone(), theirs.clone(), mode).await;
    }
}

/// kubectl at upstream's API server, whose calls to the kubelet go through the tunnel, into a real container.
fn upstreams_api_server_reaches_a_kubelet(server: Maker, agent: Maker, mode: Mode) {
    if crate::swaps::programs(&["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]).is_none() {
        return;
    }
    let Some(machine) = Machine::start() else { return };
    let no_agent = if matches!(server, Maker::Oarlock) { "no agent is available" } else { "No agent available" };
    // The machine waits in a runtime of its own, which cannot be within another.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut tunnel = runtime.block_on(Tunnel::start(server, agent, mode));
    tunnel.keys.write("egress.yaml", &tunnel.egress());
    let flag = format!("egress-selector-config-file={}", tunnel.keys.path("egress.yaml").display());
    let peer = Peer::up_with(&["kube-controller-manager", "kube-scheduler"], &[flag]);
    let kubelet = machine.kubelet_of(&peer.kubeconfig(), peer.folder(), "n1", &[]);
    let kubectl = peer.kubectl();
    settle(&kubectl);
    apply(&kubectl, &pod("web", "echo it serves; trap 'exit 0' TERM; sleep 1000 & wait", "", ""));
    until(&kubectl, "web", ready);
    kubectl.until_says("logs web", ["it serves"]);
    kubectl.run("exec web -- hostname").is("web");
    kubectl.run_with("exec -i web -- cat", "there and back\n").is("there and back");
    assert_eq!(kubectl.run("exec web -- head -c 3000000 /dev/zero").ok().out.len(), 3_000_000);
    // Without the tunnel there is no way, although the API server could dial the kubelet itself.
    tunnel.agent.kill();
    kubectl.run("exec web -- true").fails(no_agent);
    kubectl.ok("delete pod web --wait");
    machine.until_clean();
    drop(kubelet);
}

#[test]
fn upstreams_api_server_reaches_a_kubelet_through_our_server_and_agent() {
    for mode in [Mode::Grpc, Mode::HttpConnect] {
        upstreams_api_server_reaches_a_kubelet(Maker::Oarlock, Maker::Oarlock, mode);
    }
}

#[test]
fn upstreams_api_server_reaches_a_kubelet_through_upstreams_server_and_our_agent() {
    let Some(theirs) = upstream() else { return };
    upstreams_api_server_reaches_a_kubelet(theirs, Maker::Oarlock, Mode::Grpc);
}
