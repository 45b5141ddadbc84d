//! What agents do and may not do.

use std::time::Duration;

use bytes::Bytes;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{CloseRequest, CloseResponse, Packet, PacketType};
use oarlock_konnectivity::{Agent, Limits, Reason};
use oarlock_testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{
    RawAgent, TOKEN, agent_options, data, dialled, packet, serve, server_options, soon, system, tunnel, until,
};

#[tokio::test]
async fn an_agent_answers_for_itself_only() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    let mut honest = RawAgent::connect(served.agents, "a", "host=a", TOKEN).await.unwrap();
    let mut liar = RawAgent::connect(served.agents, "b", "host=b", TOKEN).await.unwrap();
    until("both are connected", || served.server.agents() == 2).await;
    let work = async {
        let random = honest.dial().await;
        // A connection of a dial that was sent to another agent.
        liar.send(dialled(random, 5)).await;
        assert_eq!(liar.payload().await, Payload::CloseRequest(CloseRequest { connect_id: 5 }));
        honest.send(dialled(random, 9)).await;
        // Bytes for the other agent's connection.
        liar.send(data(9, Bytes::from_static(b"lie"))).await;
        assert_eq!(liar.payload().await, Payload::CloseRequest(CloseRequest { connect_id: 9 }));
        honest.send(data(9, Bytes::from_static(b"truth"))).await;
    };
    let (dialled, ()) = futures::join!(served.server.dial("a:1", soon()), wait::step("the agents", work));
    let mut read = [0; 5];
    dialled.unwrap().read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"truth");
}

#[tokio::test]
async fn unknown_packets_are_ignored_and_too_large_ones_end_the_stream() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    let mut agent = RawAgent::connect(served.agents, "a", "", TOKEN).await.unwrap();
    until("the agent is connected", || served.server.agents() == 1).await;
    let work = async {
        let random = agent.dial().await;
        agent.send(Packet { r#type: 99, payload: None }).await;
        agent.send(Packet { r#type: PacketType::Drain as i32, ..dialled(random, 3) }).await;
        agent.send(dialled(random, 4)).await;
        agent.send(Packet { r#type: 99, ..data(4, Bytes::from_static(b"unknown")) }).await;
        agent.send(data(4, Bytes::from_static(b"known"))).await;
    };
    let (stream, ()) = futures::join!(served.server.dial("a:1", soon()), wait::step("the agent", work));
    let (mut stream, mut read) = (stream.unwrap(), [0; 5]);
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"known");
    agent.send(data(4, Bytes::from(vec![0; 5 << 20]))).await;
    agent.ended().await;
    let error = wait::step("the connection ends", stream.read(&mut read)).await.unwrap_err();
    assert!(error.to_string().contains("the agent was lost"), "{error}");
    until("the agent is forgotten", || served.server.agents() == 0).await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_followed_by_another_one() {
    let system = system().await;
    let mut options = server_options("s");
    options.limits = Limits { dial_timeout: Duration::from_millis(100), ..options.limits };
    let served = serve(&system, options).await;
    let _silent = RawAgent::connect(served.agents, "silent", "", TOKEN).await.unwrap();
    until("the silent agent is connected", || served.server.agents() == 1).await;
    let error = served.server.dial("127.0.0.1:1", soon()).await.unwrap_err();
    assert_eq!((error.reason(), served.server.connections()), (Reason::Timeout, 0));
    let world = crate::support::World::new();
    let echo = world.echo().await;
    let _agent = Agent::start(&system, agent_options(served.agents, "node")).await.unwrap();
    until("both are connected", || served.server.agents() == 2).await;
    for _ in 0..12 {
        // Slow machines may need more attempts than one for the agent that answers.
        let dial = async { while served.server.dial(&echo, soon()).await.is_err() {} };
        wait::step("a dial", dial).await;
    }
    until("nothing is left", || served.server.connections() == 0).await;
}

#[tokio::test]
async fn an_agent_that_stops_finishes_its_connections() {
    let tunnel = tunnel().await;
    let echo = tunnel.world.echo().await;
    let mut stream = tunnel.served.server.dial(&echo, soon()).await.unwrap();
    tunnel.agent.handle().stop();
    let mut read = [0; 4];
    stream.write_all(b"last").await.unwrap();
    wait::step("the answer", stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"last");
    drop(stream);
    let ended = tunnel.agent.handle().ended(soon()).await.unwrap();
    assert_eq!((ended, tunnel.agent.connections()), (None, 0));
    until("the server knows", || tunnel.served.server.agents() == 0).await;
}

#[tokio::test]
async fn an_agent_connects_to_every_server_and_again_after_a_loss() {
    let system = system().await;
    let world = crate::support::World::new();
    let options = |id: &str| {
        let mut options = server_options(id);
        options.count = 2;
        options
    };
    let (one, two) = (serve(&system, options("s-1")).await, serve(&system, options("s-2")).await);
    let balancer = balancer(&world, vec![one.agents, two.agents]).await;
    let agent = Agent::start(&system, agent_options(balancer, "node")).await.unwrap();
    until("both servers are connected", || agent.servers() == ["s-1", "s-2"]).await;
    until("each has one stream", || (one.server.agents(), two.server.agents()) == (1, 1)).await;
}

#[tokio::test]
async fn an_agent_that_syncs_forever_finds_a_server_that_comes_later() {
    let system = system().await;
    let world = crate::support::World::new();
    let (one, two) = (serve(&system, server_options("s-1")).await, serve(&system, server_options("s-2")).await);
    let balancer = balancer(&world, vec![one.agents, two.agents]).await;
    let mut options = agent_options(balancer, "node");
    options.sync_forever = true;
    let agent = Agent::start(&system, options).await.unwrap();
    until("the one known server is connected", || agent.servers().len() == 1).await;
    one.server.set_count(2);
    two.server.set_count(2);
    until("both servers are connected", || agent.servers() == ["s-1", "s-2"]).await;
}

/// Forwards connections to servers in turn.
async fn balancer(world: &crate::support::World, servers: Vec<std::net::SocketAddr>) -> std::net::SocketAddr {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let address = world.destination(move |mut socket| {
        let turn = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // The first server twice, so that there is a duplicate.
        let server = servers[(turn / 2) % servers.len()];
        async move {
            let mut server = tokio::net::TcpStream::connect(server).await?;
            tokio::io::copy_bidirectional(&mut socket, &mut server).await.map(drop)
        }
    });
    address.await.parse().unwrap()
}

#[tokio::test]
async fn a_connection_that_its_destination_breaks_is_reported() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    let mut agent = RawAgent::connect(served.agents, "a", "", TOKEN).await.unwrap();
    until("the agent is connected", || served.server.agents() == 1).await;
    for (name, dialer) in served.dialers() {
        let work = async {
            let random = agent.dial().await;
            agent.send(dialled(random, 4)).await;
            agent.send(data(4, Bytes::from_static(b"part"))).await;
        };
        let (stream, ()) = futures::join!(dialer.dial("a:1", soon()), wait::step(name, work));
        let (mut stream, mut read) = (stream.unwrap(), [0; 4]);
        stream.read_exact(&mut read).await.unwrap();
        let closed = CloseResponse { error: "read: connection reset".to_owned(), connect_id: 4 };
        agent.send(packet(PacketType::CloseRsp, Payload::CloseResponse(closed))).await;
        let error = wait::step(name, stream.read(&mut read)).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{name}: {error}");
    }
}
