//! Flow control by credit: readers that are slow, and agents that lie about their credit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{CloseRequest, Packet, PacketType, Window};
use oarlock_streams::BoxIo;
use oarlock_testkit::wait;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tonic::Code;

use crate::support::{
    RawAgent, TOKEN, World, data, dialled, packet, serve, server_options, soon, system, tunnel, until,
};

/// What each connection carries, in bytes.
const SIZE: usize = 64 << 20;
/// Size of the pieces in which the tests read and write.
const PIECE: usize = 1 << 20;
/// More than windows, sockets and HTTP/2 hold of one connection, and much less than [`SIZE`].
const HELD: usize = SIZE / 2;

/// Returns the bytes of a connection from an offset on, each kibibyte unlike its neighbours.
fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| ((at >> 10) % 251) as u8).collect()
}

/// Writes all of a connection, and counts. Signals after each piece.
async fn flood(to: &mut (impl AsyncWrite + Unpin), written: &AtomicUsize, signal: &Notify) -> std::io::Result<()> {
    for from in (0..SIZE).step_by(PIECE) {
        let piece = pattern(from, PIECE);
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let wrote = to.write(rest).await?;
            written.fetch_add(wrote, Ordering::Relaxed);
            rest = &rest[wrote..];
        }
        signal.notify_one();
    }
    Ok(())
}

/// Reads up to an offset of a connection.
async fn read_to(offset: usize, position: &mut usize, from: &mut (impl AsyncRead + Unpin)) {
    while *position < offset {
        let mut piece = vec![0; PIECE.min(offset - *position)];
        wait::step("bytes", from.read_exact(&mut piece)).await.unwrap();
        assert!(piece == pattern(*position, piece.len()), "other bytes than were sent");
        *position += piece.len();
    }
}

#[tokio::test]
async fn a_slow_reader_gets_everything_and_holds_up_nobody() {
    let tunnel = tunnel().await;
    let sources = [World::new(), World::new()];
    let written: [Arc<AtomicUsize>; 2] = Default::default();
    let mut addresses = Vec::new();
    for (world, written) in sources.iter().zip(&written) {
        let written = Arc::clone(written);
        let source = world.destination(move |mut socket| {
            let written = Arc::clone(&written);
            async move { flood(&mut socket, &written, &Notify::new()).await }
        });
        addresses.push(source.await);
    }
    for (name, dialer) in tunnel.served.dialers() {
        written.iter().for_each(|written| written.store(0, Ordering::Relaxed));
        let mut slow = dialer.dial(&addresses[0], soon()).await.unwrap();
        let mut fast = dialer.dial(&addresses[1], soon()).await.unwrap();
        let (mut slowly, mut fully) = (0, 0);
        while fully < SIZE {
            read_to(fully + PIECE, &mut fully, &mut fast).await;
            read_to(slowly + 1024, &mut slowly, &mut slow).await;
        }
        let held = written[0].load(Ordering::Relaxed) - slowly;
        assert!(held < HELD, "{name}: {held} bytes are held for a reader that took {slowly}");
        read_to(SIZE, &mut slowly, &mut slow).await;
        for stream in [&mut slow, &mut fast] {
            assert_eq!(wait::step(name, stream.read(&mut [0])).await.unwrap(), 0, "{name}: more than was sent");
        }
        drop((slow, fast));
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
    }
}

/// Destinations that answer with the number of bytes, and read a kibibyte a signal until they are set free.
#[derive(Default)]
struct Reluctant {
    signal: Notify,
    is_free: AtomicBool,
}

impl Reluctant {
    async fn serve(&self, mut socket: tokio::net::TcpStream) -> std::io::Result<()> {
        let mut read = 0;
        while !self.is_free.load(Ordering::Relaxed) {
            self.signal.notified().await;
            read_to(read + 1024, &mut read, &mut socket).await;
        }
        read_to(SIZE, &mut read, &mut socket).await;
        assert_eq!(socket.read(&mut [0]).await?, 0);
        socket.write_all(read.to_string().as_bytes()).await
    }
}

#[tokio::test]
async fn a_slow_destination_gets_everything_until_a_half_close_and_holds_up_nobody() {
    let tunnel = tunnel().await;
    let counting = tunnel.world.counting().await;
    for (name, dialer) in tunnel.served.dialers() {
        let (world, reluctant) = (World::new(), Arc::new(Reluctant::default()));
        let reader = Arc::clone(&reluctant);
        let destination = world.destination(move |socket| {
            let reader = Arc::clone(&reader);
            async move { reader.serve(socket).await }
        });
        let destination = destination.await;
        let (slow, fast) =
            (dialer.dial(&destination, soon()).await.unwrap(), dialer.dial(&counting, soon()).await.unwrap());
        let (slowly, fully, unheard) = (AtomicUsize::new(0), AtomicUsize::new(0), Notify::new());
        let whole = async |mut stream: BoxIo, written: &AtomicUsize, signal: &Notify| {
            flood(&mut stream, written, signal).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, SIZE.to_string(), "{name}");
        };
        let fast = async {
            whole(fast, &fully, &reluctant.signal).await;
            let held = slowly.load(Ordering::Relaxed);
            assert!(held < HELD, "{name}: {held} bytes are held for a destination that takes little");
            reluctant.is_free.store(true, Ordering::Relaxed);
            reluctant.signal.notify_one();
        };
        wait::step(name, async { futures::join!(whole(slow, &slowly, &unheard), fast) }).await;
        until("nothing is left", || tunnel.served.server.connections() + tunnel.agent.connections() == 0).await;
        until("the destination is left", || world.open() == 0).await;
    }
}

fn window(connect_id: i64, bytes: u64) -> Packet {
    packet(PacketType::Window, Payload::Window(Window { connect_id, bytes }))
}

fn bytes(count: usize) -> Bytes {
    Bytes::from(vec![7; count])
}

#[tokio::test]
async fn a_server_sends_an_agent_no_more_than_its_window_and_takes_no_lies() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    let (mut agent, offered) = RawAgent::offer(served.agents, "a", "", TOKEN, Some("4096")).await.unwrap();
    assert_eq!(offered.as_deref(), Some("524288"));
    until("the agent is connected", || served.server.agents() == 1).await;
    let mut streams = Vec::new();
    for id in [3, 4] {
        let work = async {
            let random = agent.dial().await;
            agent.send(dialled(random, id)).await;
        };
        let (stream, ()) = futures::join!(served.server.dial("a:1", soon()), wait::step("the agent", work));
        streams.push(stream.unwrap());
    }
    let (mut honest, mut stream) = (streams.pop().unwrap(), streams.pop().unwrap());
    let written = stream.write(&[7; 100_000]).await.unwrap();
    assert_eq!(written, 4096 - 64);
    assert!(matches!(agent.payload().await, Payload::Data(data) if data.data.len() == 4096 - 64));
    // Without credit for the one connection, the other one goes on.
    honest.write_all(b"x").await.unwrap();
    assert!(matches!(agent.payload().await, Payload::Data(data) if data.connect_id == 4));
    agent.send(window(3, 1000)).await;
    assert_eq!(wait::step("credit", stream.write(&[7; 100_000])).await.unwrap(), 1000 - 64);
    assert!(matches!(agent.payload().await, Payload::Data(data) if data.data.len() == 1000 - 64));
    // Credit for nobody has no effect; more than the window has breaks the connection.
    agent.send(window(77, 5)).await;
    agent.send(window(3, 4097)).await;
    for _ in 0..2 {
        assert_eq!(agent.payload().await, Payload::CloseRequest(CloseRequest { connect_id: 3 }));
    }
    let error = wait::step("the end", stream.write(&[7; 10])).await.unwrap_err();
    assert!(error.to_string().contains("more credit than"), "{error}");
    // The server gives credit as its reader takes the bytes, and ends a connection whose agent sends beyond it.
    agent.send(data(4, bytes(300_000 - 64))).await;
    wait::step("bytes", honest.read_exact(&mut vec![0; 300_000 - 64])).await.unwrap();
    assert_eq!(agent.payload().await, Payload::Window(Window { connect_id: 4, bytes: 300_000 }));
    agent.send(data(4, bytes(524_288 - 64))).await;
    agent.send(data(4, bytes(1))).await;
    for _ in 0..2 {
        assert_eq!(agent.payload().await, Payload::CloseRequest(CloseRequest { connect_id: 4 }));
    }
    let error = wait::step("the end", honest.read_to_end(&mut Vec::new())).await.unwrap_err();
    assert!(error.to_string().contains("more than the connection's window"), "{error}");
    assert_eq!((served.server.agents(), served.server.connections()), (1, 0));
}

#[tokio::test]
async fn a_window_that_is_no_size_is_refused() {
    let system = system().await;
    let served = serve(&system, server_options("s")).await;
    for offer in ["0", "4095", "64k", "2000000000"] {
        let refused = RawAgent::offer(served.agents, "a", "", TOKEN, Some(offer)).await.err().unwrap();
        let text = "expected a valid oarlock-window";
        assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, text), "{offer}");
    }
}
