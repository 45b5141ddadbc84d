//! The measured programs: a tunnel's server and agent, ours or upstream's with the same flags, or a plain TLS proxy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use oarlock_konnectivity::{Dialer, HttpConnect};
use oarlock_runtime::clock;
use oarlock_streams::BoxIo;
use oarlock_testkit::port;
use rustls_pki_types::ServerName;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;

use super::destinations::Destinations;
use super::keys::Keys;
use crate::cluster::Usage;
use crate::share::Share;
use crate::subject::Bench;

/// The longest time until programs carry a connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The Unix socket of the tunnel's server.
const SOCKET: &str = "uds";
/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The longest time of a dial.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The protocol between API servers and the tunnel's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// gRPC over a Unix socket, as on one host.
    Grpc,
    /// HTTP `CONNECT` over TLS.
    HttpConnect,
}

/// Whose programs are measured.
#[derive(Clone, Debug)]
pub(crate) enum Maker {
    /// Ours; the executable.
    Oarlock(PathBuf),
    /// Upstream's; the folder with `konnectivity-server` and `konnectivity-agent`.
    Upstream(PathBuf),
    /// HAProxy, which ends TLS and connects to the destination itself; the executable.
    Proxy(PathBuf),
}

impl Maker {
    /// Everybody whose programs are named, ours first.
    pub(crate) fn all(bench: &Bench) -> Vec<Self> {
        let upstream = bench.peers.konnectivity.clone().map(Self::Upstream);
        let proxy = bench.peers.haproxy.clone().map(Self::Proxy);
        std::iter::once(Self::Oarlock(bench.oarlock.clone())).chain(upstream).chain(proxy).collect()
    }

    /// The maker's name in tables.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Oarlock(_) => "oarlock",
            Self::Upstream(_) => "upstream",
            Self::Proxy(_) => "haproxy",
        }
    }
}

/// The way to destinations.
enum Door {
    Tunnel(Dialer),
    /// A port for each destination.
    Proxy([(SocketAddr, u16); 2], TlsConnector),
}

/// Running programs. They are killed when this value is dropped.
pub(crate) struct Running {
    children: Vec<Child>,
    door: Door,
    keys: Keys,
}

impl Running {
    /// Starts programs and waits until they carry a connection.
    ///
    /// # Errors
    /// When they do not start, or carry no connection in time; what they printed last is part of the error.
    pub(crate) async fn start(maker: &Maker, way: Way, destinations: &Destinations) -> anyhow::Result<Self> {
        let keys = Keys::make()?;
        let running = match maker {
            Maker::Oarlock(program) => {
                let part = |name: &str| {
                    let mut command = Command::new(program);
                    command.arg(name).args(["--log", "error"]);
                    command
                };
                Self::tunnel(keys, way, part)?
            }
            Maker::Upstream(folder) => Self::tunnel(keys, way, |name| Command::new(folder.join(name)))?,
            Maker::Proxy(program) => Self::proxy(keys, program, [destinations.source, destinations.echo])?,
        };
        let ready = async {
            while running.dial(destinations.echo).await.is_err() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        };
        if tokio::time::timeout(START_TIMEOUT, ready).await.is_err() {
            bail!("no connection within {START_TIMEOUT:?}; last lines: {}", running.keys.last_lines());
        }
        Ok(running)
    }

    fn tunnel(keys: Keys, way: Way, program: impl Fn(&str) -> Command) -> anyhow::Result<Self> {
        let (frontends, agents) = (port::own(), port::own());
        let mut server = program("konnectivity-server");
        let door = match way {
            Way::Grpc => {
                server.args(["--mode=grpc", "--server-port=0", &keys.flag("uds-name", SOCKET)]);
                Dialer::grpc_unix(&keys.path(SOCKET))?
            }
            Way::HttpConnect => {
                server.args(["--mode=http-connect", &format!("--server-port={frontends}")]);
                server.args([keys.flag("server-cert", "server.crt"), keys.flag("server-key", "server.key")]);
                server.arg(keys.flag("server-ca-cert", "ca.crt"));
                let host = format!("127.0.0.1:{frontends}");
                Dialer::HttpConnect(HttpConnect::Tls(host, keys.connector(&[b"http/1.1"])?, localhost()?))
            }
        };
        server.args([keys.flag("cluster-cert", "server.crt"), keys.flag("cluster-key", "server.key")]);
        server.args([keys.flag("cluster-ca-cert", "ca.crt"), format!("--agent-port={agents}")]);
        server.args([format!("--health-port={}", port::own()), format!("--admin-port={}", port::own())]);
        let mut agent = program("konnectivity-agent");
        agent.args(["--proxy-server-host=127.0.0.1", &format!("--proxy-server-port={agents}")]);
        agent.args([keys.flag("agent-cert", "client.crt"), keys.flag("agent-key", "client.key")]);
        agent.args([keys.flag("ca-cert", "ca.crt"), "--agent-identifiers=ipv4=127.0.0.1".to_owned()]);
        agent.args([format!("--health-server-port={}", port::own()), format!("--admin-server-port={}", port::own())]);
        let children = vec![spawn(server, &keys)?, spawn(agent, &keys)?];
        Ok(Self { children, door: Door::Tunnel(door), keys })
    }

    fn proxy(keys: Keys, program: &Path, destinations: [SocketAddr; 2]) -> anyhow::Result<Self> {
        let doors = destinations.map(|destination| (destination, port::own()));
        let (pem, authority) = (keys.path("server.pem"), keys.path("ca.crt"));
        let listeners = doors.map(|(destination, port)| {
            format!(
                "listen to-{port}\n bind 127.0.0.1:{port} ssl crt {} ca-file {} verify required\n server s {destination}\n",
                pem.display(),
                authority.display()
            )
        });
        let defaults = "defaults\n mode tcp\n timeout connect 10s\n timeout client 1h\n timeout server 1h\n";
        let config = format!("{defaults}{}", listeners.concat());
        keys.write("haproxy.cfg", &config)?;
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(keys.path("haproxy.cfg"));
        let tls = keys.connector(&[])?;
        Ok(Self { children: vec![spawn(command, &keys)?], door: Door::Proxy(doors, tls), keys })
    }

    /// Connects to a destination.
    ///
    /// # Errors
    /// When the programs do not.
    pub(crate) async fn dial(&self, destination: SocketAddr) -> anyhow::Result<BoxIo> {
        match &self.door {
            Door::Tunnel(dialer) => Ok(dialer.dial(&destination.to_string(), clock::after(DIAL_TIMEOUT)).await?),
            Door::Proxy(doors, tls) => {
                let known = doors.iter().find(|(known, _)| *known == destination);
                let (_, port) = known.context("the proxy does not know the destination")?;
                let socket = TcpStream::connect(("127.0.0.1", *port)).await?;
                socket.set_nodelay(true)?;
                Ok(Box::new(tls.connect(localhost()?, socket).await?))
            }
        }
    }

    /// What all programs have used so far.
    ///
    /// # Errors
    /// When one has ended.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for child in &self.children {
            let pid = child.id().with_context(|| format!("a program has ended: {}", self.keys.last_lines()))?;
            sum = sum.and(Usage::of(pid)?);
        }
        Ok(sum)
    }

    /// Gives each program so much of a processor, as if it had a host of its own.
    ///
    /// # Errors
    /// When one has ended, or the kernel refuses.
    pub(crate) fn bound(&self, processors: f64) -> anyhow::Result<Vec<Share>> {
        let pids = self.children.iter().filter_map(Child::id);
        pids.map(|pid| Share::new(pid, processors)).collect()
    }

    /// The Unix socket of [`Way::Grpc`].
    pub(crate) fn socket(&self) -> PathBuf {
        self.keys.path(SOCKET)
    }

    /// Ends the programs.
    ///
    /// # Errors
    /// When they do not end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        for child in &mut self.children {
            child.kill().await?;
        }
        Ok(())
    }
}

fn localhost() -> anyhow::Result<ServerName<'static>> {
    Ok("127.0.0.1".try_into()?)
}

/// Starts a program that writes its output to a file beside the keys.
fn spawn(mut command: Command, keys: &Keys) -> anyhow::Result<Child> {
    let (out, err) = (keys.log()?, keys.log()?);
    command.stdin(Stdio::null()).stdout(out).stderr(err).kill_on_drop(true);
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.spawn().with_context(|| program)
}
