//! A tunnel's server and agent in processes of their own: Oarlock's or upstream's, with the same flags.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oarlock_konnectivity::{DialError, Dialer, HttpConnect, Mode};
use oarlock_pki::tls::{ServerTrust, client_config};
use oarlock_pki::{PrivateKeyDer, parse_chain};
use oarlock_runtime::clock;
use oarlock_streams::BoxIo;
use oarlock_testkit::{Process, port, wait};
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use super::keys::Keys;

/// Who made a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// This project.
    Oarlock,
    /// Upstream; with the folder of the programs.
    Upstream(PathBuf),
}

impl Maker {
    fn program(&self, name: &str) -> Command {
        match self {
            Self::Oarlock => oarlock_testkit::part(name),
            Self::Upstream(folder) => Command::new(folder.join(name)),
        }
    }
}

/// A running server with a running agent.
pub(super) struct Tunnel {
    pub(super) server: Process,
    pub(super) agent: Process,
    pub(super) server_maker: Maker,
    pub(super) agent_maker: Maker,
    pub(super) mode: Mode,
    pub(super) server_health: u16,
    pub(super) server_admin: u16,
    pub(super) agent_admin: u16,
    pub(super) keys: Keys,
    server_port: u16,
    pub(super) agent_port: u16,
}

impl Tunnel {
    /// Starts a server and an agent, and waits until both are ready. API servers connect over a Unix socket in the mode gRPC, and over TLS in the mode HTTP CONNECT.
    pub(super) async fn start(server_maker: Maker, agent_maker: Maker, mode: Mode) -> Self {
        let keys = Keys::make();
        let (server_port, agent_port, server_health, server_admin) =
            (port::own(), port::own(), port::own(), port::own());
        let server = serve(&server_maker, &keys, mode, [server_port, agent_port, server_health, server_admin]);
        let (agent, agent_health, agent_admin) = attach(&agent_maker, &keys, "agent", agent_port);
        let tunnel = Self {
            server,
            agent,
            server_maker,
            agent_maker,
            mode,
            server_health,
            server_admin,
            agent_admin,
            keys,
            server_port,
            agent_port,
        };
        until_ready("the agent", agent_health).await;
        until_ready("the server", server_health).await;
        tunnel
    }

    /// Starts an agent in the place of one that was killed.
    pub(super) async fn replace_agent(&mut self) {
        let (agent, health, admin) = attach(&self.agent_maker, &self.keys, "agent", self.agent_port);
        (self.agent, self.agent_admin) = (agent, admin);
        until_ready("the new agent", health).await;
        // The new one, and the one before no more.
        until_metrics(self.server_admin, "konnectivity_network_proxy_server_ready_backend_connections 1").await;
    }

    /// Starts a server in the place of one that was killed.
    pub(super) async fn replace_server(&mut self) {
        let ports = [self.server_port, self.agent_port, self.server_health, self.server_admin];
        self.server = serve(&self.server_maker, &self.keys, self.mode, ports);
        until_ready("the new server", self.server_health).await;
    }

    /// The Unix socket of the mode gRPC.
    pub(super) fn socket(&self) -> PathBuf {
        self.keys.path("uds")
    }

    /// Connects to an address behind the tunnel, as API servers do.
    pub(super) async fn dial(&self, address: &str) -> Result<BoxIo, DialError> {
        self.dialer().dial(address, clock::after(wait::STEP_TIMEOUT)).await
    }

    /// An API server's `EgressSelectorConfiguration`: what is for the cluster goes through the tunnel.
    pub(super) fn egress(&self) -> String {
        let file = |name: &str| self.keys.path(name).display().to_string();
        let (protocol, transport) = match self.mode {
            Mode::Grpc | Mode::Any => ("GRPC", format!("uds: {{udsName: {}}}", self.socket().display())),
            Mode::HttpConnect => {
                let files = [("caBundle", "ca.crt"), ("clientCert", "client.crt"), ("clientKey", "client.key")];
                let tls = files.map(|(field, name)| format!("{field}: {}", file(name))).join(", ");
                let url = format!("https://127.0.0.1:{}", self.server_port);
                ("HTTPConnect", format!("tcp: {{url: \"{url}\", tlsConfig: {{{tls}}}}}"))
            }
        };
        let connection = format!("{{proxyProtocol: {protocol}, transport: {{{transport}}}}}");
        format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n  connection: {connection}\n"
        )
    }

    fn dialer(&self) -> Dialer {
        match self.mode {
            Mode::Grpc | Mode::Any => {
                let endpoint = Endpoint::from_shared(format!("unix://{}", self.socket().display())).unwrap();
                Dialer::Grpc(Box::new(endpoint))
            }
            Mode::HttpConnect => https(&self.keys, "client", self.server_port),
        }
    }
}

/// The way by HTTP `CONNECT` over TLS to a port, as the owner of a certificate.
pub(super) fn https(keys: &Keys, name: &str, port: u16) -> Dialer {
    let read = |file: &str| std::fs::read_to_string(keys.path(file)).unwrap();
    let chain = |file: &str| parse_chain(&read(file)).unwrap();
    let key = PrivateKeyDer::from_pem_slice(read(&format!("{name}.key")).as_bytes()).unwrap();
    let trust = ServerTrust::Authorities(chain("ca.crt"));
    let mut config = client_config(trust, Some((chain(&format!("{name}.crt")), key))).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = TlsConnector::from(Arc::new(config));
    let host = "127.0.0.1".try_into().unwrap();
    Dialer::HttpConnect(HttpConnect::Tls(format!("127.0.0.1:{port}"), tls, host))
}

/// Starts a server that admits agents by certificates.
fn serve(maker: &Maker, keys: &Keys, mode: Mode, ports: [u16; 4]) -> Process {
    serve_with(maker, keys, mode, ports, &[keys.flag("cluster-ca-cert", "ca.crt")])
}

/// Starts a server with its ports (that of API servers, that of agents, that of health, and the administrator's), and flags that say which agents it admits.
pub(super) fn serve_with(
    maker: &Maker,
    keys: &Keys,
    mode: Mode,
    [server, agents, health, admin]: [u16; 4],
    admits: &[String],
) -> Process {
    let mut command = maker.program("konnectivity-server");
    match mode {
        Mode::Grpc | Mode::Any => {
            command.args(["--mode=grpc", "--server-port=0", &keys.flag("uds-name", "uds")]);
        }
        Mode::HttpConnect => {
            command.args(["--mode=http-connect", &format!("--server-port={server}")]);
            command.args([keys.flag("server-cert", "server.crt"), keys.flag("server-key", "server.key")]);
            command.arg(keys.flag("server-ca-cert", "ca.crt"));
        }
    }
    command.args([keys.flag("cluster-cert", "server.crt"), keys.flag("cluster-key", "server.key")]).args(admits);
    command.arg(format!("--agent-port={agents}"));
    command.args([format!("--health-port={health}"), format!("--admin-port={admin}")]);
    Process::start(command, "konnectivity-server")
}

/// Starts an agent with the certificate of this name. Returns its port of health and the administrator's, too.
pub(super) fn attach(maker: &Maker, keys: &Keys, name: &str, server: u16) -> (Process, u16, u16) {
    let identity = [keys.flag("agent-cert", &format!("{name}.crt")), keys.flag("agent-key", &format!("{name}.key"))];
    attach_with(maker, keys, &identity, server)
}

/// Starts an agent with further flags. Returns its port of health and the administrator's, too.
pub(super) fn attach_with(maker: &Maker, keys: &Keys, more: &[String], server: u16) -> (Process, u16, u16) {
    let (health, admin) = (port::own(), port::own());
    let mut command = maker.program("konnectivity-agent");
    command.args(["--proxy-server-host=127.0.0.1", &format!("--proxy-server-port={server}")]).args(more);
    command.args([keys.flag("ca-cert", "ca.crt"), "--agent-identifiers=ipv4=127.0.0.1".to_owned()]);
    command.args([format!("--health-server-port={health}"), format!("--admin-server-port={admin}")]);
    (Process::start(command, "konnectivity-agent"), health, admin)
}

/// Waits until a program is ready.
pub(super) async fn until_ready(what: &str, health: u16) {
    let ready = async {
        while !get(health, "/readyz").await.is_ok_and(|(code, _)| code == 200) {
            pause().await;
        }
    };
    wait::step(&format!("{what} is ready"), ready).await;
}

/// The number of sockets that a program has open.
pub(super) fn sockets(program: &Process) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap();
    // A file may be closed meanwhile.
    let targets = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Waits before a condition is checked again.
pub(super) async fn pause() {
    clock::sleep(Duration::from_millis(20)).await;
}

/// Sends a request over plain HTTP. Returns the code and the body of the answer.
pub(super) async fn get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    let mut io = TcpStream::connect(("127.0.0.1", port)).await?;
    io.write_all(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    io.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| std::io::Error::other(format!("no answer: {answer:?}")))?;
    Ok((code, body.to_owned()))
}

/// Waits until a program's metrics have a line.
pub(super) async fn until_metrics(admin: u16, line: &str) {
    let has_line = async {
        while !get(admin, "/metrics").await.is_ok_and(|(_, text)| text.lines().any(|known| known == line)) {
            pause().await;
        }
    };
    wait::step(line, has_line).await;
}

/// Waits until the value of a program's metric meets a condition.
pub(super) async fn until_metric(admin: u16, name: &str, condition: impl Fn(f64) -> bool) {
    let value = |text: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let is_met = async {
        while !get(admin, "/metrics").await.is_ok_and(|(_, text)| value(&text).is_some_and(&condition)) {
            pause().await;
        }
    };
    wait::step(name, is_met).await;
}
