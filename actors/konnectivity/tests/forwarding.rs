//! Dials at a server without the agent, which other servers answer.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures::future::join_all;
use oarlock_konnectivity::{Agent, Limits, Peers, Reason, SERVER_USER, ServerOptions};
use oarlock_pki::tls::{ServerTrust, ServingCertificate, client_config, mutual_server_config};
use oarlock_pki::{Authority, ClientTrust, Issued, Leaf, San, Subject, UnixTime};
use oarlock_runtime::System;
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::{
    Served, World, agent_options, echoing, runtime, serve, server_options, socket, soon, system, until,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The authority of a tunnel, which signs for API servers and agents, too.
struct Keys(Authority);

impl Keys {
    fn make() -> Self {
        Self(Authority::create("tunnel", UnixTime::now()).unwrap())
    }

    fn issue(&self, user: &str) -> Issued {
        self.0.issue(&Leaf::peer(Subject::named(user), vec![San::Ip(HERE)]), UnixTime::now()).unwrap()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let certificate = ServingCertificate::new(&self.issue(SERVER_USER)).unwrap();
        let clients = ClientTrust::new([self.0.certificate()]).unwrap();
        TlsAcceptor::from(Arc::new(mutual_server_config(certificate, &clients).unwrap()))
    }

    /// The TLS side of a client of servers, with a certificate of this user.
    fn client(&self, identity: Option<Issued>) -> ClientConfig {
        let trust = ServerTrust::Authorities(vec![self.0.certificate().clone()]);
        client_config(trust, identity.map(|issued| (vec![issued.certificate.clone()], issued.key.to_rustls()))).unwrap()
    }

    fn peers(&self, servers: &[SocketAddr]) -> Option<Peers> {
        let servers = servers.iter().map(ToString::to_string);
        Some(Peers::new(servers, self.client(Some(self.issue(SERVER_USER)))).unwrap())
    }

    /// Starts a server whose port for other servers is `port`.
    async fn serve(&self, system: &System, options: ServerOptions, port: TcpListener) -> Served {
        let served = serve(system, options).await;
        served.server.listen_peers(port, self.acceptor()).await.unwrap();
        served
    }
}

/// Servers that all know one another, and themselves, as by the name of a headless Service.
async fn site(keys: &Keys, system: &System, count: usize) -> Vec<Served> {
    let ports = join_all((0..count).map(|_| socket())).await;
    let known: Vec<_> = ports.iter().map(|port| port.local_addr().unwrap()).collect();
    let mut servers = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let options = ServerOptions { peers: keys.peers(&known), ..server_options(&format!("s{index}")) };
        servers.push(keys.serve(system, options, port).await);
    }
    servers
}

async fn attach(system: &System, served: &Served, id: &str, identifiers: &str) -> Agent {
    let mut options = agent_options(served.agents, id);
    identifiers.clone_into(&mut options.identifiers);
    let before = served.server.agents();
    let agent = Agent::start(system, options).await.unwrap();
    until("the agent is connected", || served.server.agents() > before).await;
    agent
}

#[tokio::test]
async fn any_of_three_servers_reaches_the_one_agent() {
    let (keys, system, world, counted) = (Keys::make(), system().await, World::new(), World::new());
    let servers = site(&keys, &system, 3).await;
    let (echo, counting) = (world.echo().await, counted.counting().await);
    let agent = attach(&system, &servers[2], "node", "").await;
    for (index, served) in servers.iter().enumerate() {
        for (name, dialer) in served.dialers() {
            let name = format!("server {index}, {name}");
            let mut stream = dialer.dial(&echo, soon()).await.unwrap();
            let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
            let (mut read, mut write) = tokio::io::split(&mut stream);
            let mut received = vec![0; sent.len()];
            let write = async {
                write.write_all(&sent).await?;
                write.flush().await
            };
            wait::step(&name, async { futures::try_join!(write, read.read_exact(&mut received)) }).await.unwrap();
            assert_eq!(received, sent, "{name}");
            drop(stream);
            let mut stream = dialer.dial(&counting, soon()).await.unwrap();
            stream.write_all(&[7; 100_000]).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            wait::step(&name, stream.read_to_string(&mut answer)).await.unwrap();
            assert_eq!(answer, "100000", "{name}: the answer after a half-close");
            drop(stream);
            until("nothing is left", || servers[2].server.connections() + agent.connections() == 0).await;
            until("the destinations are left", || world.open() + counted.open() == 0).await;
        }
    }
}

#[tokio::test]
async fn what_the_agent_says_of_a_failed_dial_comes_through() {
    let (keys, system) = (Keys::make(), system().await);
    let servers = site(&keys, &system, 2).await;
    let _agent = attach(&system, &servers[1], "node", "").await;
    let closed = socket().await;
    let refused = closed.local_addr().unwrap().to_string();
    drop(closed);
    let error = servers[0].server.dial(&refused, soon()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Destination, "{error}");
    assert!(error.to_string().contains(&format!("dial tcp {refused}: Connection refused")), "{error}");
}

#[tokio::test]
async fn without_an_agent_anywhere_the_error_says_who_was_asked() {
    let (keys, system, closed) = (Keys::make(), system().await, socket().await);
    let (first, second) = (socket().await, socket().await);
    let known = [second.local_addr().unwrap(), closed.local_addr().unwrap()];
    drop(closed);
    let options = |peers| ServerOptions { peers, ..server_options("s") };
    let asked = keys.serve(&system, options(keys.peers(&known)), first).await;
    let _other = keys.serve(&system, options(None), second).await;
    for (name, dialer) in asked.dialers() {
        let error = dialer.dial("10.0.0.1:10250", soon()).await.err().unwrap().to_string();
        let text = "no agent is available for 10.0.0.1:10250, neither here nor at 1 other servers (1 not reachable)";
        assert!(error.contains(text), "{name}: {error}");
    }
    let error = asked.server.dial("10.0.0.1:10250", soon()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::NoAgent);
}

#[tokio::test]
async fn a_dial_is_forwarded_once() {
    let (keys, system, world) = (Keys::make(), system().await, World::new());
    let [first, second, third] = [socket().await, socket().await, socket().await];
    let known = |port: &TcpListener| keys.peers(&[port.local_addr().unwrap()]);
    let options = |peers| ServerOptions { peers, ..server_options("s") };
    // Each server knows the next one only.
    let (to_second, to_third) = (known(&second), known(&third));
    let first = keys.serve(&system, options(to_second), first).await;
    let second = keys.serve(&system, options(to_third), second).await;
    let third = keys.serve(&system, options(None), third).await;
    let _agent = attach(&system, &third, "node", "").await;
    let echo = world.echo().await;
    second.server.dial(&echo, soon()).await.unwrap();
    let error = first.server.dial(&echo, soon()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::NoAgent, "{error}");
}

#[tokio::test]
async fn a_strategy_is_tried_at_all_servers_before_the_next_one() {
    let (keys, system, world) = (Keys::make(), system().await, World::new());
    let servers = site(&keys, &system, 2).await;
    let _any = attach(&system, &servers[0], "any", "").await;
    let echo = world.echo().await;
    // No server has the node's agent, and that of this server will do.
    let stream = servers[0].server.dial(&echo, soon()).await.unwrap();
    assert_eq!((servers[0].server.connections(), servers[1].server.connections()), (1, 0));
    drop(stream);
    until("nothing is left", || servers[0].server.connections() == 0).await;
    let _node = attach(&system, &servers[1], "node", "ipv4=127.0.0.1").await;
    let _stream = servers[0].server.dial(&echo, soon()).await.unwrap();
    assert_eq!((servers[0].server.connections(), servers[1].server.connections()), (0, 1));
}

#[tokio::test]
async fn servers_that_are_lost_or_stand_still_hold_up_no_dial() {
    let (keys, system, world) = (Keys::make(), system().await, World::new());
    // Connections to the second one are accepted by the kernel, and nobody shakes hands.
    let [closed, still, first, second] = [socket().await, socket().await, socket().await, socket().await];
    let known = [&closed, &still, &second].map(|port| port.local_addr().unwrap());
    drop(closed);
    let asked = keys.serve(&system, ServerOptions { peers: keys.peers(&known), ..server_options("s") }, first).await;
    let other = keys.serve(&system, server_options("t"), second).await;
    let _agent = attach(&system, &other, "node", "").await;
    let echo = world.echo().await;
    for (name, dialer) in asked.dialers() {
        wait::step(name, dialer.dial(&echo, soon())).await.unwrap();
    }
    drop(still);
}

#[tokio::test]
async fn a_server_takes_a_bounded_number_of_connections_from_others() {
    let (keys, system, world) = (Keys::make(), system().await, World::new());
    let (first, second) = (socket().await, socket().await);
    let peers = keys.peers(&[second.local_addr().unwrap()]);
    let asked = keys.serve(&system, ServerOptions { peers, ..server_options("s") }, first).await;
    let limits = Limits { connections: 2, ..Limits::SERVER };
    let other = keys.serve(&system, ServerOptions { limits, ..server_options("t") }, second).await;
    // The limit is that of each agent's stream, too.
    let [_one, _two] = [attach(&system, &other, "one", "").await, attach(&system, &other, "two", "").await];
    let echo = world.echo().await;
    let held = [asked.server.dial(&echo, soon()).await.unwrap(), asked.server.dial(&echo, soon()).await.unwrap()];
    let error = asked.server.dial(&echo, soon()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Busy, "{error}");
    assert!(error.to_string().contains("too many connections of other servers"), "{error}");
    other.server.dial(&echo, soon()).await.unwrap();
    drop(held);
    until("the places are free", || other.server.connections() == 0).await;
    let again = async { while asked.server.dial(&echo, soon()).await.is_err() {} };
    wait::step("a place is free", again).await;
}

/// Asks a port for a connection to an address as a server would. Returns the first line of the answer, or the error.
async fn forged(port: SocketAddr, mut tls: ClientConfig, address: &str) -> std::io::Result<String> {
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut io = TlsConnector::from(Arc::new(tls)).connect(HERE.into(), TcpStream::connect(port).await?).await?;
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\noarlock-proxy-strategies: default\r\n\r\n");
    io.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.contains(&b'\n') && io.read_buf(&mut answer).await? > 0 {}
    let text = String::from_utf8_lossy(&answer);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn nobody_but_a_server_forwards_a_dial() {
    let (keys, others, system, world) = (Keys::make(), Keys::make(), system().await, World::new());
    let port = socket().await;
    let address = port.local_addr().unwrap();
    let served = keys.serve(&system, server_options("s"), port).await;
    let _agent = attach(&system, &served, "node", "").await;
    let reached = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let destination = world.destination(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::future::ready(Ok(()))
    });
    let destination = destination.await;
    // The same authority signs for them, and their keys are theirs.
    for user in ["agent", "kube-apiserver", "system:konnectivity-server2", ""] {
        let answer = forged(address, keys.client(Some(keys.issue(user))), &destination).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 403 Forbidden", "{user:?}");
    }
    // Strangers are refused in the handshake, whatever they call themselves.
    for identity in [Some(others.issue(SERVER_USER)), None] {
        let answer = forged(address, keys.client(identity), &destination).await;
        assert!(answer.as_ref().is_err() || answer.as_ref().is_ok_and(String::is_empty), "{answer:?}");
    }
    assert_eq!(reached.load(std::sync::atomic::Ordering::Relaxed), 0, "the destination was dialled");
    let answer = forged(address, keys.client(Some(keys.issue(SERVER_USER))), &destination).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_server_trusts_only_servers_of_its_tunnel() {
    let (keys, others, system) = (Keys::make(), Keys::make(), system().await);
    let (first, second) = (socket().await, socket().await);
    let peers = keys.peers(&[second.local_addr().unwrap()]);
    let asked = keys.serve(&system, ServerOptions { peers, ..server_options("s") }, first).await;
    // A host that has taken the address of a server, with an agent of its own.
    let impostor = others.serve(&system, server_options("t"), second).await;
    let _agent = attach(&system, &impostor, "node", "").await;
    let error = asked.server.dial("127.0.0.1:1", soon()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::NoAgent, "{error}");
    assert!(error.to_string().contains("(1 not reachable)"), "{error}");
}

#[test]
fn forwarded_connections_end_with_an_error_when_the_other_server_or_its_agent_is_killed() {
    let keys = Keys::make();
    for lost in ["agent", "server"] {
        let (here, there, node) = (runtime(), runtime(), runtime());
        let (first, second) = here.block_on(async { (socket().await, socket().await) });
        let peers = keys.peers(&[second.local_addr().unwrap()]);
        let other = there.block_on(async {
            let second = TcpListener::from_std(second.into_std().unwrap()).unwrap();
            keys.serve(&system().await, server_options("t"), second).await
        });
        let agent = node.block_on(async {
            let system = system().await;
            (Agent::start(&system, agent_options(other.agents, "node")).await.unwrap(), system)
        });
        let (served, echo, world, own) = here.block_on(async {
            let (own, world) = (system().await, World::new());
            let options = ServerOptions { peers, ..server_options("s") };
            (keys.serve(&own, options, first).await, world.echo().await, world, own)
        });
        let tasks = here.metrics().num_alive_tasks();
        let streams = here.block_on(async {
            until("the agent is connected", || other.server.agents() == 1).await;
            echoing(served.dialers(), &echo, 10).await
        });
        let (killed, _kept) = if lost == "agent" { (node, there) } else { (there, node) };
        killed.shutdown_background();
        here.block_on(async {
            for (name, mut stream) in streams {
                let error = wait::step(name, stream.read(&mut [0])).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{lost}, {name}: {error}");
            }
            until("the destination is left", || world.open() == 0).await;
            until("no task is left", || here.metrics().num_alive_tasks() <= tasks).await;
        });
        drop((agent, own));
    }
}

#[test]
fn addresses_of_servers_are_checked() {
    let keys = Keys::make();
    let tls = || keys.client(None);
    for good in ["10.0.0.1:8092", "[fd00::1]:8092", "servers.tunnel.svc:8092"] {
        assert!(Peers::check(good).is_ok() && Peers::new([good.to_owned()], tls()).is_ok(), "{good}");
    }
    for wrong in ["", "host", "host:0", "fd00::1:80", "a b:1"] {
        assert!(
            Peers::new([wrong.to_owned()], tls()).unwrap_err().to_string().contains(&format!("{wrong:?}")),
            "{wrong}"
        );
        assert!(Peers::check(wrong).is_err(), "{wrong}");
    }
}
