//! What a tunnel must carry, whoever made its programs, and what happens when a part of it is lost.

use std::sync::atomic::Ordering;

use futures::future::join_all;
use oarlock_konnectivity::Mode;
use oarlock_streams::BoxIo;
use oarlock_testkit::{Process, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::destinations::Destinations;
use super::programs::{Maker, Tunnel, pause, sockets, until_metric};

/// What a source sends, in bytes: more than a connection's buffer and all sockets between hold.
const FLOOD: usize = 64 << 20;
/// The metric of our server with the memory of its queues.
const SERVER_BUFFERED: &str = "konnectivity_network_proxy_server_buffered_bytes";
/// The metric of our agent with the memory of its queues.
const AGENT_BUFFERED: &str = "konnectivity_network_proxy_agent_buffered_bytes";

pub(super) async fn tell(server: Maker, agent: Maker, mode: Mode) {
    let mut tunnel = Tunnel::start(server, agent, mode).await;
    let world = Destinations::new();
    many(&tunnel, &world).await;
    refused(&tunnel).await;
    half_closed(&tunnel, &world).await;
    slow_beside_fast(&tunnel, &world).await;
    agent_killed(&mut tunnel, &world).await;
    server_killed(&mut tunnel, &world).await;
    // Upstream's agent outlives SIGTERM while it has no server.
    tunnel.agent.kill();
}

/// Forty connections at once, each with bytes of its own.
async fn many(tunnel: &Tunnel, world: &Destinations) {
    let echo = world.echo().await;
    let one = async |n: u32| {
        let mut stream = tunnel.dial(&echo.address).await.unwrap();
        let sent = n.to_be_bytes().repeat(50_000);
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let mut received = Vec::<u8>::with_capacity(sent.len());
        let writes = async {
            write.write_all(&sent).await?;
            write.flush().await
        };
        // Each piece is a step: all of it may take a busy machine long.
        let reads = async {
            while received.len() < sent.len() {
                let what = format!("echo {n} after {} bytes", received.len());
                let read = wait::step(&what, read.read_buf(&mut received)).await?;
                assert!(read > 0, "{what}: the connection has ended");
            }
            Ok::<_, std::io::Error>(())
        };
        futures::try_join!(writes, reads).unwrap();
        assert!(received == sent, "stream {n} got other bytes");
    };
    join_all((0..40).map(one)).await;
}

/// A destination that refuses is an error of the dial, and the tunnel goes on.
async fn refused(tunnel: &Tunnel) {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let error = tunnel.dial(&address).await.err().unwrap();
    if tunnel.mode == Mode::Grpc {
        assert!(error.to_string().contains("refused"), "{error}");
    }
}

/// A connection whose client has closed its direction ends. With our programs the destination's answer arrives before; upstream's close both directions.
async fn half_closed(tunnel: &Tunnel, world: &Destinations) {
    let counting = world.counting().await;
    let mut stream = tunnel.dial(&counting.address).await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    let ended = wait::step("the end of a half-closed connection", stream.read_to_string(&mut answer)).await;
    if (&tunnel.server_maker, &tunnel.agent_maker) == (&Maker::Oarlock, &Maker::Oarlock) {
        ended.unwrap();
        assert_eq!(answer, "100000");
    }
}

/// A connection that nobody reads waits for its reader between our server and our agent. With upstream's agent our server resets it. Those beside it go on in both cases;
/// upstream's server stops all of them.
async fn slow_beside_fast(tunnel: &Tunnel, world: &Destinations) {
    if tunnel.server_maker != Maker::Oarlock {
        return;
    }
    let (echo, source) = (world.echo().await, world.source(FLOOD).await);
    let mut fast = tunnel.dial(&echo.address).await.unwrap();
    let mut slow = tunnel.dial(&source.address).await.unwrap();
    for n in 0..100 {
        echoes(&mut fast, n).await;
    }
    let mut received = Vec::new();
    if tunnel.agent_maker == Maker::Oarlock {
        wait::step("the rest", slow.read_to_end(&mut received)).await.unwrap();
        assert_eq!((received.len(), source.broken.load(Ordering::Relaxed)), (FLOOD, 0));
        return echoes(&mut fast, 100).await;
    }
    wait::step("the source is cut off", async {
        while source.broken.load(Ordering::Relaxed) == 0 {
            pause().await;
        }
    })
    .await;
    echoes(&mut fast, 100).await;
    let ended = wait::step("the end of the slow connection", slow.read_to_end(&mut received)).await;
    let error = ended.unwrap_err();
    assert!(tunnel.mode == Mode::HttpConnect || error.to_string().contains("too slow"), "{error}");
    assert!(received.len() < FLOOD);
}

/// The connections of an agent that is killed end, and leave no socket and no buffer at the server; with another agent the tunnel goes on.
async fn agent_killed(tunnel: &mut Tunnel, world: &Destinations) {
    let echo = world.echo().await;
    let before = sockets(&tunnel.server);
    let mut streams = open(tunnel, &echo.address).await;
    let full = fill(tunnel, world).await;
    tunnel.agent.kill();
    // Upstream's server says nothing of the agent's end.
    let has_reason = tunnel.mode == Mode::Grpc && tunnel.server_maker == Maker::Oarlock;
    ended("agent", has_reason, &mut streams).await;
    drop((streams, full));
    if tunnel.server_maker == Maker::Oarlock {
        until_metric(tunnel.server_admin, SERVER_BUFFERED, |bytes| bytes < 1.0).await;
    }
    tunnel.replace_agent().await;
    open(tunnel, &echo.address).await;
    closes_sockets(&tunnel.server_maker, &tunnel.server, before).await;
}

/// The connections of a server that is killed end, and leave no socket and no buffer at the agent, which finds the next server.
async fn server_killed(tunnel: &mut Tunnel, world: &Destinations) {
    let echo = world.echo().await;
    let before = sockets(&tunnel.agent);
    let mut streams = open(tunnel, &echo.address).await;
    let full = fill(tunnel, world).await;
    tunnel.server.kill();
    ended("server", tunnel.mode == Mode::Grpc, &mut streams).await;
    drop((streams, full));
    if tunnel.agent_maker == Maker::Oarlock {
        until_metric(tunnel.agent_admin, AGENT_BUFFERED, |bytes| bytes < 1.0).await;
    }
    tunnel.replace_server().await;
    open(tunnel, &echo.address).await;
    closes_sockets(&tunnel.agent_maker, &tunnel.agent, before).await;
}

/// Fills the queues of our programs: the server's by a source that nobody reads, the agent's by a destination that reads nothing. With a program of upstream's there is
/// no window that keeps both connections alive.
async fn fill(tunnel: &Tunnel, world: &Destinations) -> Vec<BoxIo> {
    if (&tunnel.server_maker, &tunnel.agent_maker) != (&Maker::Oarlock, &Maker::Oarlock) {
        return Vec::new();
    }
    let (source, deaf) = (world.source(FLOOD).await, world.deaf().await);
    let unread = tunnel.dial(&source.address).await.unwrap();
    let mut flooded = tunnel.dial(&deaf.address).await.unwrap();
    let flood = async {
        let piece = vec![7; 1 << 16];
        loop {
            if let Err(error) = flooded.write_all(&piece).await {
                break error;
            }
        }
    };
    let full = async {
        until_metric(tunnel.server_admin, SERVER_BUFFERED, |bytes| bytes > 0.0).await;
        until_metric(tunnel.agent_admin, AGENT_BUFFERED, |bytes| bytes > 0.0).await;
    };
    tokio::select! {
        error = flood => panic!("{error}"),
        () = full => {}
    }
    vec![unread, flooded]
}

/// Waits until a program of ours has no more sockets than before. Upstream's may keep some.
async fn closes_sockets(maker: &Maker, program: &Process, before: usize) {
    if *maker != Maker::Oarlock {
        return;
    }
    wait::step("every socket of an ended connection is closed", async {
        while sockets(program) > before {
            pause().await;
        }
    })
    .await;
}

/// Opens connections that carry bytes.
async fn open(tunnel: &Tunnel, address: &str) -> Vec<BoxIo> {
    let mut streams = join_all((0..5).map(async |_| tunnel.dial(address).await.unwrap())).await;
    for stream in &mut streams {
        echoes(stream, 1).await;
    }
    streams
}

async fn echoes(stream: &mut BoxIo, n: u32) {
    stream.write_all(&n.to_be_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut read = [0; 4];
    wait::step("an echo", stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(u32::from_be_bytes(read), n);
}

/// Waits until every connection has ended: with an error where the protocol has a word for one. HTTP `CONNECT` has none, and its connections may only end.
async fn ended(lost: &str, has_reason: bool, streams: &mut [BoxIo]) {
    for stream in streams {
        let end = wait::step(&format!("the end without the {lost}"), stream.read(&mut [0])).await;
        assert!(if has_reason { end.is_err() } else { !matches!(end, Ok(1..)) }, "{end:?}");
    }
}
