//! exec, attach, port-forward, cp, logs and proxies with real kubectl: through the API server, over HTTPS to a kubelet, and from there to a
//! streaming server. The kubelet is the real one; its runtime is the simulated one with commands of this machine for processes
//! ([`runtime`]). `containerd` shows the same with a real runtime where there is one.

mod commands;
mod forward;
mod kubelet_server;
mod listening;
mod runtime;
mod streaming_server;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use oarlock_apiserver::InProcess;
use oarlock_auth::UserInfo;
use oarlock_client::Client;
use oarlock_config::EgressOptions;
use oarlock_kubelet::server::Server;
use oarlock_kubelet::{Fleet, NodeConfig};
use oarlock_pki::tls::ServingCertificate;
use oarlock_pki::{Authority, ClientTrust, Leaf, San, Subject, UnixTime, parse_chain};
use oarlock_runtime::clock;
use oarlock_service_apiserver::KubeletOptions;
use oarlock_testkit::Kubectl;
use serde_json::json;
use tokio::net::TcpListener;

use crate::cluster::Cluster;
use runtime::WithCommands;

/// A cluster of one node, `n1`, with a running pod, `web`.
struct Streams {
    cluster: Cluster,
    /// The port of the kubelet's server.
    port: u16,
    kubectl: Kubectl,
}

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Streams {
    async fn start() -> Self {
        Self::through(EgressOptions::default()).await
    }

    /// Starts a cluster whose API server reaches the kubelet as `egress` says.
    async fn through(egress: EgressOptions) -> Self {
        // The kubelet's certificate is self-signed, and this test does not verify it.
        let kubelets = KubeletOptions { kubelet_certificate_authority: Some("".into()), ..KubeletOptions::default() };
        let cluster = Cluster::with(kubelets, egress).await;
        cluster.controllers().await;
        cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
        let fleet = Fleet::new(cluster.system.clone());
        let socket = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let runtime = Arc::new(WithCommands::start(&cluster.system).await);
        let node = NodeConfig { internal_ip: LOCALHOST, port, runtime, ..NodeConfig::simulated("n1", 0) };
        let user = UserInfo::new("system:node:n1", ["system:nodes"]);
        let client = Client::new(Arc::new(InProcess::new(cluster.api.server.clone(), user, "kubelet/1")));
        fleet.add(client, node).await.unwrap();
        let clients = parse_chain(&cluster.api.server.config().client_ca_pem).unwrap();
        let clients = ClientTrust::new(&clients).unwrap();
        let server = Server::new(&cluster.system, &fleet, Some(clients.clone()));
        server.listen(socket, certificate(), Some(&clients)).await.unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "annotations": {"sim.oarlock.dev/log-lines": "5"}},
            "spec": {"nodeName": "n1", "containers": [
                {"name": "main", "image": "nginx:1", "ports": [{"containerPort": 8080}]},
            ]},
        });
        cluster.create("pods", pod).await;
        cluster
            .eventually("web runs", || async {
                let pod = cluster.get("pods", "default", "web").await?;
                (pod["status"]["phase"] == "Running").then_some(())
            })
            .await;
        let kubectl = Kubectl::new(&cluster.api.kubeconfig);
        Self { cluster, port, kubectl }
    }

    /// Runs what blocks.
    async fn kubectl<T: Send + 'static>(&self, test: impl FnOnce(Kubectl) -> T + Send + 'static) -> T {
        let kubectl = self.kubectl.clone();
        tokio::task::spawn_blocking(move || test(kubectl)).await.unwrap()
    }
}

fn certificate() -> Arc<ServingCertificate> {
    let now = u64::try_from(clock::wall().as_second()).unwrap();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
    let authority = Authority::create("n1-ca", now).unwrap();
    let leaf = Leaf::server(Subject::node("n1"), vec![San::Ip(LOCALHOST)]);
    ServingCertificate::new(&authority.issue(&leaf, now).unwrap()).unwrap()
}
