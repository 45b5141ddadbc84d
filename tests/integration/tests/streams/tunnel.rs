//! The API server reaches the kubelet through a tunnel, as EgressSelectorConfiguration says: logs, exec and port-forward with real kubectl.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_config::EgressOptions;
use oarlock_konnectivity::{
    Agent, AgentOptions, Authenticate, Credentials, Denied, Limits, Server, ServerOptions, Strategy,
};
use oarlock_pki::tls::{ServingCertificate, server_config};
use oarlock_pki::{Authority, ClientTrust, Leaf, San, Subject, UnixTime};
use oarlock_runtime::{Options, Phase, System, clock};
use oarlock_testkit::http::Who;
use oarlock_testkit::{Cluster, Etcd, wait};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Endpoint;

use super::forward::{echo, forwards};
use super::{LOCALHOST, Streams};
use crate::crew::nodes;

/// The unread bytes of a connection: so few that every client is slow. Without flow control such a connection would be reset.
const UNREAD: usize = 16 << 10;

/// Every agent of these tests is welcome.
struct Anybody;

#[async_trait]
impl Authenticate for Anybody {
    async fn authenticate(&self, _: &Credentials<'_>) -> Result<(), Denied> {
        Ok(())
    }
}

/// A tunnel server and its agent.
struct Tunnel {
    system: System,
    server: Server,
    agents: SocketAddr,
    frontends: SocketAddr,
    folder: tempfile::TempDir,
}

async fn socket() -> TcpListener {
    TcpListener::bind((LOCALHOST, 0)).await.unwrap()
}

impl Tunnel {
    /// Starts a server whose frontends use TLS if certificates are given.
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let system = System::start(Options { watchdog: None, ..Options::default() }).await.unwrap();
        let server = Server::new(
            &system,
            ServerOptions {
                id: "s".to_owned(),
                count: 1,
                strategies: vec![Strategy::Default],
                limits: Limits { buffer: UNREAD, window: Some(UNREAD), ..Limits::SERVER },
                authenticate: Arc::new(Anybody),
                keepalive: Duration::from_secs(30),
                peers: None,
            },
        );
        let agents = server.listen_agents(socket().await, None).await.unwrap();
        let frontends = server.listen_frontends(socket().await, tls).await.unwrap();
        Self { system, server, agents, frontends, folder: tempfile::tempdir().unwrap() }
    }

    async fn agent(&self) -> Agent {
        let options = AgentOptions {
            endpoint: Endpoint::from_shared(format!("http://{}", self.agents)).unwrap(),
            id: "n1".to_owned(),
            identifiers: String::new(),
            token: None,
            limits: Limits { buffer: UNREAD, window: Some(UNREAD), ..Limits::AGENT },
            sync_interval: Duration::from_millis(20),
            sync_interval_cap: Duration::from_millis(100),
            keepalive: Duration::from_secs(60),
            sync_forever: false,
        };
        let agent = Agent::start(&self.system, options).await.unwrap();
        self.until("the agent is connected", |server| server.agents() == 1).await;
        agent
    }

    async fn until(&self, what: &str, right: impl Fn(&Server) -> bool) {
        wait::step(what, async {
            while !right(&self.server) {
                clock::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Makes the frontends' port a Unix socket as well, and returns its path.
    async fn unix(&self) -> String {
        let path = self.folder.path().join("frontend.sock");
        let (listener, port) = (UnixListener::bind(&path).unwrap(), self.frontends);
        let gate = self.system.gate("unix", Phase::Ingress);
        let inner = gate.clone();
        let accept = async move {
            while let Ok((mut unix, _)) = listener.accept().await {
                let one = async move {
                    let Ok(mut tcp) = TcpStream::connect(port).await else { return };
                    // Either side may close the connection.
                    let _ = tokio::io::copy_bidirectional(&mut unix, &mut tcp).await;
                };
                inner.spawn("connection", one).unwrap();
            }
        };
        gate.spawn("accept", accept).unwrap();
        path.display().to_string()
    }

    /// The flag with a file that sends what is for the cluster this way.
    fn egress(&self, protocol: &str, transport: &str) -> EgressOptions {
        EgressOptions { egress_selector_config_file: Some(self.file("cluster", protocol, transport)) }
    }

    /// A file that sends what is for this purpose this way.
    fn file(&self, name: &str, protocol: &str, transport: &str) -> PathBuf {
        let path = self.folder.path().join("egress.yaml");
        let content = format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: {name}\n  connection:\n    proxyProtocol: {protocol}\n    transport: {{{transport}}}\n"
        );
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Shows logs, exec and port-forward through the tunnel, and that nothing works beside it.
    async fn carries_what_users_do(self, egress: EgressOptions) {
        let streams = Streams::through(egress).await;
        // Without an agent there is no way to the kubelet, although this process could dial the node itself.
        streams
            .kubectl(|kubectl| {
                let refused = kubectl.run("exec web -- true");
                assert!(refused.code != 0 && refused.err.contains("error dialing backend: "), "{refused}");
                assert!(refused.err.contains("no agent is available for 127.0.0.1:"), "{refused}");
                kubectl.run("logs web").fails("error dialing backend: ");
            })
            .await;
        let agent = self.agent().await;
        let port = echo(&streams).await;
        streams
            .kubectl(move |kubectl| {
                kubectl.run("exec web -- echo hello").is("hello");
                let large = kubectl.run("exec web -- head -c 3000000 /dev/zero").ok();
                assert_eq!(large.out.len(), 3_000_000);
                kubectl.run("logs web --tail=1").is("main: line 5");
                forwards(&kubectl, port);
            })
            .await;
        self.until("nothing is open", |server| server.connections() == 0).await;
        let following = streams.kubectl(|kubectl| kubectl.follow("logs -f web")).await;
        let following = tokio::task::spawn_blocking(move || {
            following.until("five lines", |out| out.lines().count() == 5);
            following
        });
        let following = following.await.unwrap();
        assert_eq!(self.server.connections(), 1, "a log that is followed is one connection of the tunnel");
        drop(following);
        self.until("the log's connection has ended", |server| server.connections() == 0).await;
        drop(agent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kubelet_is_reached_by_grpc_over_a_unix_socket() {
    let tunnel = Tunnel::start(None).await;
    let egress = tunnel.egress("GRPC", &format!("uds: {{udsName: {}}}", tunnel.unix().await));
    tunnel.carries_what_users_do(egress).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kubelet_is_reached_by_http_connect_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (acceptor, files) = tls_files(folder.path());
    let tunnel = Tunnel::start(Some(acceptor)).await;
    let url = format!("https://{}", tunnel.frontends);
    let egress = tunnel.egress("HTTPConnect", &format!("tcp: {{url: \"{url}\", tlsConfig: {{{files}}}}}"));
    tunnel.carries_what_users_do(egress).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tunnel_server_that_is_away_is_named_to_the_user() {
    let tunnel = Tunnel::start(None).await;
    let path = tunnel.folder.path().join("nobody.sock").display().to_string();
    for protocol in ["GRPC", "HTTPConnect"] {
        let streams = Streams::through(tunnel.egress(protocol, &format!("uds: {{udsName: {path}}}"))).await;
        let expected = format!("error dialing backend: dial unix {path}: ");
        streams
            .kubectl(move |kubectl| {
                let spdy = kubectl.with_env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
                for line in ["exec web -- true", "logs web", "port-forward pod/web :80"] {
                    let ran = spdy.run(line);
                    assert!(ran.code != 0 && ran.err.contains(&expected), "{line}: {ran}");
                }
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn etcd_is_reached_through_the_tunnel_and_nodes_are_not() {
    let Ok(etcd) =
        Etcd::start(1).map_err(|why| oarlock_testkit::skipped!("{why}: etcd was not reached through a tunnel"))
    else {
        return;
    };
    let tunnel = Tunnel::start(None).await;
    let agent = tunnel.agent().await;
    let url = format!("http://{}", tunnel.frontends);
    let file = tunnel.file("etcd", "HTTPConnect", &format!("tcp: {{url: \"{url}\"}}")).display().to_string();
    let cluster = tokio::task::spawn_blocking(move || {
        let servers = etcd.endpoints().join(",");
        let flags = ["--etcd-servers", &servers, "--egress-selector-config-file", &file];
        (Cluster::up(&[&flags[..], &["--disable", "scheduler,controller-manager,kubelet"]].concat()), etcd)
    });
    let (cluster, _etcd) = cluster.await.unwrap();
    assert!(tunnel.server.connections() > 0, "etcd is behind the tunnel");
    let made = tokio::task::spawn_blocking(move || {
        cluster.kubectl().run("create configmap through-the-tunnel").says(["created"]);
        let metrics = cluster.http(Who::Admin).get("/metrics").body;
        let metrics = String::from_utf8(metrics).unwrap();
        let open = "oarlock_apiserver_egress_connections{purpose=\"etcd\",cause=\"control-plane\"} ";
        assert!(metrics.contains(open) && !metrics.contains(&format!("{open}0\n")), "{open}");
        assert!(
            !metrics.contains("oarlock_apiserver_egress_connections{purpose=\"cluster\""),
            "nothing else was dialled"
        );
    });
    made.await.unwrap();
    drop(agent);
    tunnel.until("the ends of the server and of its connections", |server| server.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kubelet_of_another_process_proves_itself_inside_the_tunnel() {
    let tunnel = Tunnel::start(None).await;
    let _agent = tunnel.agent().await;
    let file = tunnel.file("cluster", "GRPC", &format!("uds: {{udsName: {}}}", tunnel.unix().await));
    let other = tunnel.folder.path().join("other-ca.pem");
    std::fs::write(&other, Authority::create("other", now()).unwrap().certificate_pem()).unwrap();
    let processes = tokio::task::spawn_blocking(move || {
        let (file, other) = (file.display().to_string(), other.display().to_string());
        let flags = ["--disable", "kubelet", "--egress-selector-config-file", &file];
        let mut cluster = Cluster::up(&flags);
        let _nodes = nodes(&cluster, "1");
        let kubectl = cluster.kubectl();
        let pod = r#"{"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "annotations": {"sim.oarlock.dev/log-lines": "5"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}"#;
        kubectl.until("get serviceaccount default -o name", |out| !out.is_empty());
        kubectl.run_with("create -f -", pod).says(["created"]);
        kubectl.until("get pod web -o jsonpath={.status.phase}", |out| out.contains("Running"));
        kubectl.run("logs web --tail=1").is("main: line 5");
        cluster.from_now_on(&[&flags[..], &["--kubelet-certificate-authority", &other]].concat());
        assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
        cluster.start();
        let refused = kubectl.run("logs web");
        assert!(refused.code != 0 && refused.err.contains("error dialing backend: dial tcp "), "{refused}");
        assert!(refused.err.contains("invalid peer certificate"), "{refused}");
    });
    processes.await.unwrap();
    assert_eq!(tunnel.server.connections(), 0);
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock::wall().as_second()).unwrap()))
}

/// Makes certificates. Returns the acceptor of a server that wants client certificates, and the files as fields of `tlsConfig`.
fn tls_files(folder: &Path) -> (TlsAcceptor, String) {
    let now = now();
    let authority = Authority::create("tunnel-ca", now).unwrap();
    let client = authority.issue(&Leaf::client(Subject::named("kube-apiserver")), now).unwrap();
    let server = authority.issue(&Leaf::server(Subject::named("tunnel"), vec![San::Ip(LOCALHOST)]), now).unwrap();
    let mut fields = Vec::new();
    for (field, text) in [
        ("caBundle", authority.certificate_pem()),
        ("clientCert", client.certificate_pem()),
        ("clientKey", client.key.to_pem()),
    ] {
        let path = folder.join(field);
        std::fs::write(&path, text).unwrap();
        fields.push(format!("{field}: {}", path.display()));
    }
    let clients = ClientTrust::new([authority.certificate()]).unwrap();
    let config = server_config(ServingCertificate::new(&server).unwrap(), Some(&clients)).unwrap();
    (TlsAcceptor::from(Arc::new(config)), fields.join(", "))
}
