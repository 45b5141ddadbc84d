//! A tunnel's server with a real API server: tokens of agents are reviewed, and servers are counted by Leases.

use oarlock_konnectivity::Mode;
use oarlock_testkit::wait::{self, eventually};
use oarlock_testkit::{Cluster, Process, Signal, port};

use super::keys::Keys;
use super::programs::{Maker, attach_with, get, pause, serve_with, until_metrics, until_ready};

/// The audience of agents' tokens.
const AUDIENCE: &str = "system:konnectivity-server";

fn cluster() -> Cluster {
    Cluster::up(&["--disable", "scheduler,controller-manager,kubelet"])
}

/// A server that reviews tokens of the service account `agent`.
struct Site {
    cluster: Cluster,
    keys: Keys,
    server: Process,
    agents: u16,
    admin: u16,
}

fn site(more: &[&str]) -> Site {
    let (cluster, keys) = (cluster(), Keys::make());
    for name in ["agent", "other"] {
        cluster.kubectl().ok(&format!("create serviceaccount {name}"));
        let token = cluster.kubectl().ok(&format!("create token {name} --audience {AUDIENCE}"));
        keys.write(name, token.trim());
    }
    let [server, agents, health, admin] = [port::own(), port::own(), port::own(), port::own()];
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let audience = format!("--authentication-audience={AUDIENCE}");
    let flags =
        ["--agent-namespace=default", "--agent-service-account=agent", "--server-id=one", &audience, &kubeconfig];
    let flags: Vec<String> = flags.iter().chain(more).map(|&flag| flag.to_owned()).collect();
    let server = serve_with(&Maker::Oarlock, &keys, Mode::Grpc, [server, agents, health, admin], &flags);
    Site { cluster, keys, server, agents, admin }
}

#[tokio::test]
async fn only_agents_of_the_service_account_are_admitted() {
    let site = site(&[]);
    let token = |name: &str| [site.keys.flag("service-account-token-path", name)];
    let (_agent, health, _) = attach_with(&Maker::Oarlock, &site.keys, &token("agent"), site.agents);
    until_ready("the agent", health).await;
    let (other, health, _) = attach_with(&Maker::Oarlock, &site.keys, &token("other"), site.agents);
    let refusal = "the token is one of system:serviceaccount:default:other";
    wait::step(refusal, async {
        while !other.said().contains(refusal) {
            pause().await;
        }
    })
    .await;
    assert_eq!(get(health, "/readyz").await.unwrap().0, 500);
}

#[tokio::test]
async fn servers_are_counted_by_their_leases_and_expired_ones_are_deleted() {
    let mut site = site(&["--enable-lease-controller"]);
    let kubectl = site.cluster.kubectl();
    let leases = || kubectl.ok("get leases -n kube-system -l k8s-app=konnectivity-server -o name");
    eventually("the server has a lease", || match leases().trim() {
        "lease.coordination.k8s.io/konnectivity-proxy-server-one" => Ok(()),
        other => Err(other.to_owned()),
    });
    // The lease of a server that renews it, as upstream's does, and one of a server that was lost.
    for (name, renewed) in [("two", "2100-01-01"), ("lost", "2020-01-01")] {
        let lease = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-system", "labels": {"k8s-app": "konnectivity-server"}},
            "spec": {"leaseDurationSeconds": 30, "renewTime": format!("{renewed}T00:00:00.000000Z")},
        });
        site.keys.write("lease.json", &lease.to_string());
        kubectl.ok(&format!("create -f {}", site.keys.path("lease.json").display()));
    }
    let flags = [site.keys.flag("service-account-token-path", "agent"), "--sync-forever".to_owned()];
    let (_agent, _, admin) = attach_with(&Maker::Oarlock, &site.keys, &flags, site.agents);
    until_metrics(admin, "konnectivity_network_proxy_agent_known_server_count 2").await;
    until_metrics(site.admin, "konnectivity_network_proxy_server_ready_backend_connections 1").await;
    eventually("the expired lease is deleted", || {
        let listed = leases();
        if listed.contains("/lost") || !listed.contains("/two") { Err(listed) } else { Ok(()) }
    });
    site.server.signal(Signal::TERM);
    assert_eq!(site.server.wait_for_end(), Some(0));
    assert_eq!(leases().trim(), "lease.coordination.k8s.io/two", "the server's own lease is deleted when it stops");
}
