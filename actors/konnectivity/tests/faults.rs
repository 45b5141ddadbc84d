//! Lost parts, and readers that are too slow.

use std::io::ErrorKind;
use std::sync::Arc;

use oarlock_konnectivity::{Agent, Limits};
use oarlock_testkit::wait;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{
    PLAIN_AGENT, PLAIN_SERVER, World, agent_options, echoing, runtime, serve, server_options, soon, system,
    tunnel_with, until,
};

/// What a source sends, in bytes: more than a connection's buffer and all sockets between hold.
const FLOOD: usize = 64 << 20;

#[tokio::test]
async fn without_flow_control_a_reader_that_is_too_slow_is_reset_and_the_others_go_on() {
    let tunnel = tunnel_with(PLAIN_SERVER, Limits::AGENT).await;
    let echo = tunnel.world.echo().await;
    let sources = World::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(8);
    let source = sources.destination(move |mut socket| {
        let tell = tell.clone();
        async move {
            let sent = socket.write_all(&vec![7; FLOOD]).await;
            tell.send(sent.is_ok()).await.map_err(std::io::Error::other)
        }
    });
    let source = source.await;
    for (name, dialer) in tunnel.served.dialers() {
        let mut fast = dialer.dial(&echo, soon()).await.unwrap();
        let mut slow = dialer.dial(&source, soon()).await.unwrap();
        // The source is cut off although the reader takes nothing.
        assert_eq!(wait::step(name, told.recv()).await, Some(false), "{name}: all of it was buffered");
        for n in 0..100_u32 {
            let mut read = [0; 4];
            fast.write_all(&n.to_be_bytes()).await.unwrap();
            wait::step(name, fast.read_exact(&mut read)).await.unwrap();
            assert_eq!(u32::from_be_bytes(read), n, "{name}");
        }
        let mut received = Vec::new();
        let error = wait::step(name, slow.read_to_end(&mut received)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}: {error}");
        // HTTP CONNECT has no word for the reason.
        assert!(name == "http connect" || error.to_string().contains("too slow"), "{name}: {error}");
        assert!(received.len() < FLOOD, "{name}");
        drop((fast, slow));
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
    }
}

#[tokio::test]
async fn without_flow_control_a_destination_that_is_too_slow_is_cut_off_and_the_dialler_gets_an_error() {
    let tunnel = tunnel_with(Limits::SERVER, PLAIN_AGENT).await;
    let deaf = World::new();
    let destination = deaf.destination(|socket| async move {
        let _unread = socket;
        std::future::pending().await
    });
    let destination = destination.await;
    for (name, dialer) in tunnel.served.dialers() {
        let stream = dialer.dial(&destination, soon()).await.unwrap();
        let (mut read, mut write) = tokio::io::split(stream);
        let flood = async {
            let piece = vec![7; 1 << 16];
            loop {
                if let Err(error) = write.write_all(&piece).await {
                    break error;
                }
            }
        };
        let mut buffer = [0; 16];
        let reading = read.read(&mut buffer);
        let (written, read) = wait::step(name, async { futures::join!(flood, reading) }).await;
        // A reset of a socket is reported once, to whoever comes first.
        let ends = [Some(written), read.err()];
        let ends = || ends.iter().flatten();
        assert!(ends().any(|error| error.kind() == ErrorKind::ConnectionReset), "{name}");
        let has_reason = ends().any(|error| error.to_string().contains("too slow"));
        assert!(name == "http connect" || has_reason, "{name}: {:?}", ends().collect::<Vec<_>>());
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
    }
}

#[test]
fn connections_of_a_killed_agent_end_with_an_error_and_leave_nothing() {
    let (host, node) = (runtime(), runtime());
    let (system, served, echo, _world) = host.block_on(async {
        let (system, world) = (system().await, World::new());
        let (served, echo) = (serve(&system, server_options("s")).await, world.echo().await);
        (system, served, echo, world)
    });
    let tasks = host.metrics().num_alive_tasks();
    let _agent = node.block_on(async {
        let system = crate::support::system().await;
        (Agent::start(&system, agent_options(served.agents, "node")).await.unwrap(), system)
    });
    let streams = host.block_on(async {
        until("the agent is connected", || served.server.agents() == 1).await;
        echoing(served.dialers(), &echo, 20).await
    });
    node.shutdown_background();
    host.block_on(async {
        for (name, mut stream) in streams {
            let error = wait::step(name, stream.read(&mut [0])).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}: {error}");
        }
        until("nothing is left", || served.server.agents() + served.server.connections() == 0).await;
        until("no task is left", || host.metrics().num_alive_tasks() <= tasks).await;
    });
    drop(system);
}

#[test]
fn connections_through_a_killed_server_end_with_an_error_and_leave_nothing() {
    let (host, site, spare) = (runtime(), runtime(), runtime());
    let served = host.block_on(async { serve(&system().await, server_options("s")).await });
    let target = Arc::new(Mutex::new(served.agents));
    let (agent, world, echo, node, _balancer) = site.block_on(async {
        let (node, world, balancer) = (system().await, World::new(), World::new());
        let chosen = Arc::clone(&target);
        let address = balancer.destination(move |mut socket| {
            let chosen = *chosen.lock();
            async move {
                let mut server = tokio::net::TcpStream::connect(chosen).await?;
                tokio::io::copy_bidirectional(&mut socket, &mut server).await.map(drop)
            }
        });
        let address = address.await.parse().unwrap();
        let agent = Agent::start(&node, agent_options(address, "node")).await.unwrap();
        let echo = world.echo().await;
        until("the server is connected", || agent.servers() == ["s"]).await;
        (agent, world, echo, node, balancer)
    });
    // A server of its own runtime, so that its tasks are not counted.
    let (other, _spare) = spare.block_on(async {
        let system = system().await;
        (serve(&system, server_options("t")).await, system)
    });
    let tasks = site.metrics().num_alive_tasks();
    // Over sockets: a dialer in the process of the server ends with it.
    let streams = site.block_on(echoing(served.dialers().into_iter().skip(1), &echo, 20));
    // From now on the load balancer chooses another server.
    *target.lock() = other.agents;
    host.shutdown_background();
    site.block_on(async {
        for (name, mut stream) in streams {
            // HTTP CONNECT has no word for an error: the end of the bytes is all that a killed server leaves.
            let end = wait::step(name, stream.read(&mut [0])).await;
            assert!(end.is_err() || (name == "http connect" && end.is_ok_and(|read| read == 0)), "{name}");
        }
        until("no connection is left", || agent.connections() == 0).await;
        until("the destinations are left", || world.open() == 0).await;
        until("another server is connected", || agent.servers() == ["t"]).await;
        until("no task is left", || site.metrics().num_alive_tasks() <= tasks).await;
        let mut stream = other.server.dial(&echo, soon()).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
    });
    drop(node);
}
