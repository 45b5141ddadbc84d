//! Three servers as programs, with one agent: each of them reaches the node, and nobody but they may ask one another.

use std::path::PathBuf;

use oarlock_konnectivity::{DialError, Dialer};
use oarlock_runtime::clock;
use oarlock_streams::BoxIo;
use oarlock_testkit::{Process, port, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::destinations::Destinations;
use super::keys::Keys;
use super::programs::{Maker, attach, https, until_metrics, until_ready};

/// A running server that knows the others.
struct Member {
    program: Process,
    socket: PathBuf,
    agents: u16,
    health: u16,
    admin: u16,
    peers: u16,
}

impl Member {
    /// Starts the server `name`, which forwards to `known`.
    fn start(keys: &Keys, name: &str, known: &str, peers: u16) -> Self {
        let [agents, health, admin] = [port::own(), port::own(), port::own()];
        let mut command = oarlock_testkit::part("konnectivity-server");
        command.args(["--server-port=0", &keys.flag("uds-name", name), "--proxy-strategies=destHost"]);
        command.args([keys.flag("cluster-cert", "server.crt"), keys.flag("cluster-key", "server.key")]);
        command.arg(keys.flag("cluster-ca-cert", "ca.crt"));
        command.args([keys.flag("peer-cert", "peer.crt"), keys.flag("peer-key", "peer.key")]);
        command.args([keys.flag("peer-ca-cert", "ca.crt"), format!("--peer-servers={known}")]);
        command.args([format!("--peer-port={peers}"), format!("--agent-port={agents}")]);
        command.args([format!("--health-port={health}"), format!("--admin-port={admin}")]);
        let program = Process::start(command, name);
        Self { program, socket: keys.path(name), agents, health, admin, peers }
    }

    async fn dial(&self, address: &str) -> Result<BoxIo, DialError> {
        Dialer::grpc_unix(&self.socket)?.dial(address, clock::after(wait::STEP_TIMEOUT)).await
    }
}

async fn echoes(stream: &mut BoxIo) {
    stream.write_all(b"echo").await.unwrap();
    let mut read = [0; 4];
    wait::step("an echo", stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"echo");
}

#[tokio::test]
async fn any_of_three_servers_reaches_the_node_of_one_agent() {
    let (keys, world) = (Keys::make(), Destinations::new());
    let ports = [port::own(), port::own(), port::own()];
    let known = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let servers = ["one", "two", "three"].into_iter().zip(ports);
    let mut servers: Vec<_> = servers.map(|(name, port)| Member::start(&keys, name, &known, port)).collect();
    let (_agent, health, _) = attach(&Maker::Oarlock, &keys, "agent", servers[2].agents);
    until_ready("the agent", health).await;
    until_ready("the third server", servers[2].health).await;
    let echo = world.echo().await;
    let mut streams = Vec::new();
    for server in &servers {
        wait::step("the server listens", async {
            while !server.socket.exists() {
                super::programs::pause().await;
            }
        })
        .await;
        let mut stream = server.dial(&echo.address).await.unwrap();
        echoes(&mut stream).await;
        streams.push(stream);
    }
    for (server, forwarded) in servers.iter().zip([1, 1, 0]) {
        let line = format!("konnectivity_network_proxy_server_forwarded_connections {forwarded}");
        until_metrics(server.admin, &line).await;
    }
    let line = "konnectivity_network_proxy_server_forwarded_dials_total{result=\"established\"} 1";
    until_metrics(servers[0].admin, line).await;
    // The same authority has signed for agents and API servers, which may not use the servers' port.
    for name in ["agent", "client"] {
        let dialer = https(&keys, name, servers[2].peers);
        let error = dialer.dial(&echo.address, clock::after(wait::STEP_TIMEOUT)).await.err().unwrap();
        assert!(error.to_string().contains("tunnel servers are \"system:konnectivity-server\""), "{name}: {error}");
    }
    servers[2].program.kill();
    let mut first = streams.swap_remove(0);
    let error = wait::step("the end without the server", first.read(&mut [0])).await.unwrap_err();
    assert!(error.to_string().contains("the connection through another tunnel server"), "{error}");
    let error = servers[0].dial(&echo.address).await.err().unwrap().to_string();
    let text =
        format!("no agent is available for {}, neither here nor at 2 other servers (1 not reachable)", echo.address);
    assert!(error.contains(&text), "{error}");
}
