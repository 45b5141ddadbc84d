//! A tunnel of one process: a server, an agent, destinations, and agents that break the rules.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use http::uri::PathAndQuery;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{AgentService, Data, DialResponse, Packet, PacketType};
use oarlock_konnectivity::{
    Agent, AgentOptions, Authenticate, Credentials, Denied, Dialer, HttpConnect, Limits, Server, ServerOptions,
    Strategy, Token,
};
use oarlock_runtime::gate::Gate;
use oarlock_runtime::{Instant, Options, System, clock};
use oarlock_streams::BoxIo;
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// The token that servers of tests accept.
pub(crate) const TOKEN: &str = "good";

/// Accepts one token; an agent may name hosts only if its id is among them.
pub(crate) struct Check;

#[async_trait]
impl Authenticate for Check {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<(), Denied> {
        if credentials.token != Some(TOKEN) {
            return Err(Denied("the token is not valid".to_owned()));
        }
        match credentials.identifiers.hosts.iter().find(|host| *host != credentials.agent) {
            Some(host) => Err(Denied(format!("agent {} is not host {host}", credentials.agent))),
            None => Ok(()),
        }
    }
}

pub(crate) struct Text(pub(crate) &'static str);

#[async_trait]
impl Token for Text {
    async fn read(&self) -> std::io::Result<String> {
        Ok(self.0.to_owned())
    }
}

pub(crate) async fn system() -> System {
    System::start(Options { watchdog: None, ..Options::default() }).await.unwrap()
}

/// A runtime of its own, which can be killed with all that runs on it.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(crate) fn server_options(id: &str) -> ServerOptions {
    ServerOptions {
        id: id.to_owned(),
        count: 1,
        strategies: vec![Strategy::DestHost, Strategy::Default],
        limits: Limits::SERVER,
        authenticate: Arc::new(Check),
        keepalive: Duration::from_secs(30),
        peers: None,
    }
}

pub(crate) fn agent_options(server: SocketAddr, id: &str) -> AgentOptions {
    AgentOptions {
        endpoint: endpoint(server),
        id: id.to_owned(),
        identifiers: String::new(),
        token: Some(Arc::new(Text(TOKEN))),
        limits: Limits::AGENT,
        sync_interval: Duration::from_millis(20),
        sync_interval_cap: Duration::from_millis(100),
        keepalive: Duration::from_secs(60),
        sync_forever: false,
    }
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

/// A server with its ports.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) agents: SocketAddr,
    pub(crate) frontends: SocketAddr,
}

pub(crate) async fn socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) async fn serve(system: &System, options: ServerOptions) -> Served {
    let server = Server::new(system, options);
    let agents = server.listen_agents(socket().await, None).await.unwrap();
    let frontends = server.listen_frontends(socket().await, None).await.unwrap();
    Served { server, agents, frontends }
}

impl Served {
    /// Every way into the tunnel, by name.
    pub(crate) fn dialers(&self) -> [(&'static str, Dialer); 3] {
        let http = HttpConnect::Plain(self.frontends.to_string());
        [
            ("in process", Dialer::InProcess(self.server.clone())),
            ("grpc", Dialer::Grpc(Box::new(endpoint(self.frontends)))),
            ("http connect", Dialer::HttpConnect(http)),
        ]
    }
}

/// Opens `count` connections in each of these ways, which have carried a byte to `echo` and back.
pub(crate) async fn echoing(
    dialers: impl IntoIterator<Item = (&'static str, Dialer)>,
    echo: &str,
    count: usize,
) -> Vec<(&'static str, BoxIo)> {
    let mut streams = Vec::new();
    for (name, dialer) in dialers {
        for _ in 0..count {
            let mut stream = dialer.dial(echo, soon()).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            streams.push((name, stream));
        }
    }
    streams
}

/// A server with an agent.
pub(crate) struct Tunnel {
    pub(crate) served: Served,
    pub(crate) agent: Agent,
    pub(crate) world: World,
}

/// A server that knows no flow control, as upstream's.
pub(crate) const PLAIN_SERVER: Limits = Limits { window: None, ..Limits::SERVER };
/// An agent that knows no flow control, as upstream's.
pub(crate) const PLAIN_AGENT: Limits = Limits { window: None, ..Limits::AGENT };

pub(crate) async fn tunnel() -> Tunnel {
    tunnel_with(Limits::SERVER, Limits::AGENT).await
}

pub(crate) async fn tunnel_with(server: Limits, agent: Limits) -> Tunnel {
    let system = system().await;
    let served = serve(&system, ServerOptions { limits: server, ..server_options("s") }).await;
    let options = AgentOptions { limits: agent, ..agent_options(served.agents, "node") };
    let agent = Agent::start(&system, options).await.unwrap();
    until("the agent is connected", || served.server.agents() == 1).await;
    Tunnel { served, agent, world: World::new() }
}

/// Waits for a condition that other tasks bring about.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    wait::step(what, async {
        while !condition() {
            clock::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) fn soon() -> Instant {
    clock::after(wait::STEP_TIMEOUT)
}

/// Destinations.
pub(crate) struct World {
    gate: Gate,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { gate: Gate::new("destinations") }
    }

    /// The number of connections that destinations have open.
    pub(crate) fn open(&self) -> usize {
        // All but the listener.
        self.gate.inside() - 1
    }

    /// Starts the one destination of this world: `serve` handles each connection.
    pub(crate) async fn destination<F>(&self, serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = socket().await;
        let address = listener.local_addr().unwrap().to_string();
        let gate = self.gate.clone();
        let accept = async move {
            while let Ok((socket, _)) = listener.accept().await {
                let connection = serve(socket);
                let _ = gate.spawn("connection", async move { drop(connection.await) });
            }
        };
        self.gate.spawn("listener", accept).unwrap();
        address
    }

    /// Sends back what arrives.
    pub(crate) async fn echo(&self) -> String {
        self.destination(|mut socket| async move {
            let (mut read, mut write) = socket.split();
            tokio::io::copy(&mut read, &mut write).await?;
            write.shutdown().await
        })
        .await
    }

    /// Reads to the end, then answers with the number of bytes.
    pub(crate) async fn counting(&self) -> String {
        self.destination(|mut socket| async move {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await?;
            socket.write_all(all.len().to_string().as_bytes()).await
        })
        .await
    }
}

/// An agent whose packets a test writes.
pub(crate) struct RawAgent {
    send: mpsc::Sender<Packet>,
    packets: Streaming<Packet>,
    _channel: Channel,
}

impl RawAgent {
    pub(crate) async fn connect(server: SocketAddr, id: &str, identifiers: &str, token: &str) -> Result<Self, Status> {
        let (agent, window) = Self::offer(server, id, identifiers, token, None).await?;
        assert_eq!(window, None, "an agent that offers none gets none");
        Ok(agent)
    }

    /// Connects with an offered window. Returns the server's as well.
    pub(crate) async fn offer(
        server: SocketAddr,
        id: &str,
        identifiers: &str,
        token: &str,
        window: Option<&str>,
    ) -> Result<(Self, Option<String>), Status> {
        let channel = endpoint(server).connect().await.unwrap();
        let (send, receive) = mpsc::channel(16);
        let mut request = Request::new(stream(receive));
        request.metadata_mut().insert("agentid", id.parse().unwrap());
        request.metadata_mut().insert("agentidentifiers", identifiers.parse().unwrap());
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        if let Some(window) = window {
            request.metadata_mut().insert("oarlock-window", window.parse().unwrap());
        }
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static(AgentService::CONNECT.path());
        let answer = grpc.streaming(request, path, ProstCodec::<Packet, Packet>::default()).await?;
        assert_eq!(answer.metadata().get("serverid").unwrap(), "s");
        assert_eq!(answer.metadata().get("servercount").unwrap(), "1");
        let offered = answer.metadata().get("oarlock-window").map(|window| window.to_str().unwrap().to_owned());
        Ok((Self { send, packets: answer.into_inner(), _channel: channel }, offered))
    }

    pub(crate) async fn send(&self, packet: Packet) {
        self.send.send(packet).await.unwrap();
    }

    pub(crate) async fn payload(&mut self) -> Payload {
        let packet = wait::step("a packet", self.packets.message()).await.unwrap().unwrap();
        packet.payload.unwrap()
    }

    /// Waits for a dial and returns its id.
    pub(crate) async fn dial(&mut self) -> i64 {
        match self.payload().await {
            Payload::DialRequest(request) => request.random,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the server ends the stream.
    pub(crate) async fn ended(self) {
        let mut packets = self.packets;
        wait::step("the end of the stream", async { while let Ok(Some(_)) = packets.message().await {} }).await;
    }
}

fn stream(receive: mpsc::Receiver<Packet>) -> impl Stream<Item = Packet> {
    futures::stream::unfold(receive, |mut receive| async move { Some((receive.recv().await?, receive)) })
}

pub(crate) fn packet(kind: PacketType, payload: Payload) -> Packet {
    Packet { r#type: kind as i32, payload: Some(payload) }
}

/// An agent's answer to a dial that has succeeded.
pub(crate) fn dialled(random: i64, connect_id: i64) -> Packet {
    packet(PacketType::DialRsp, Payload::DialResponse(DialResponse { error: String::new(), connect_id, random }))
}

/// Bytes of a connection.
pub(crate) fn data(connect_id: i64, data: Bytes) -> Packet {
    packet(PacketType::Data, Payload::Data(Data { connect_id, error: String::new(), data }))
}
