//! Forwards the connections of one link.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Flow, Inner, Way};

const CHUNK_BYTES: usize = 16 << 10;
/// Length in bytes from which a piece counts as large.
const LARGE_PIECE_BYTES: usize = 8 << 10;
/// Chunks of one direction in flight. When the queue is full the sender has to wait, as with a slow network.
const MAX_CHUNKS_IN_FLIGHT: usize = 64;

/// Bytes with their due time; an empty chunk marks the end of the direction.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::AcqRel);
}

/// Accepts connections until the link is dropped.
pub(super) async fn accept<F>(listener: TcpListener, mut take: impl FnMut(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // The machine may be short of descriptors for a moment.
                if let Ok((client, _)) = accepted {
                    connections.spawn(take(client));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

pub(super) async fn connection(mut client: TcpStream, link: Arc<Inner>) {
    let state = *link.state.borrow();
    if state.cut {
        count(&link.counters.refused, 1);
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(state.target).await else {
        count(&link.counters.broken, 1);
        return reset(&client);
    };
    count(&link.counters.connections, 1);
    let whole =
        client.set_nodelay(true).and(server.set_nodelay(true)).is_ok() && both(&mut client, &mut server, &link).await;
    if !whole {
        reset(&client);
        reset(&server);
    }
}

/// Forwards both directions until they have ended cleanly; returns false when they have not.
async fn both(client: &mut TcpStream, server: &mut TcpStream, link: &Inner) -> bool {
    let mut state = link.state.subscribe();
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let there = direction(from_client, to_server, Way::There, link);
    let back = direction(from_server, to_client, Way::Back, link);
    let both = async { tokio::try_join!(there, back) };
    tokio::select! {
        biased;
        _ = state.wait_for(|state| state.cut) => {
            count(&link.counters.cut, 1);
            false
        }
        ended = both => match ended {
            Ok(_) => true,
            Err(Broken::Hole) => {
                count(&link.counters.cut, 1);
                false
            }
            Err(Broken::End) => {
                count(&link.counters.broken, 1);
                false
            }
        }
    }
}

/// Resets a connection, as if its other end had vanished.
fn reset(stream: &TcpStream) {
    // `Err` means that the connection is already closed.
    let _ = stream.set_zero_linger();
}

/// Why a connection was broken.
enum Broken {
    /// Bytes were dropped, and the link was healed.
    Hole,
    /// One end closed or broke the connection.
    End,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::End
    }
}

async fn direction(from: ReadHalf<'_>, to: WriteHalf<'_>, way: Way, link: &Inner) -> Result<(), Broken> {
    let (queue, chunks) = mpsc::channel(MAX_CHUNKS_IN_FLIGHT);
    tokio::try_join!(read(from, queue, way, link), write(to, chunks, way, link)).map(drop)
}

async fn read(mut from: ReadHalf<'_>, queue: mpsc::Sender<Chunk>, way: Way, link: &Inner) -> Result<(), Broken> {
    let mut state = link.state.subscribe();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut hole = false;
    loop {
        let length = tokio::select! {
            biased;
            _ = state.wait_for(|state| state.flow(way) != Flow::Lost), if hole => return Err(Broken::Hole),
            length = from.read(&mut buffer) => length?,
        };
        if length >= LARGE_PIECE_BYTES && link.state.borrow().flow(way) == Flow::HeldFromLarge {
            link.set(way, Flow::Held);
        }
        let flow = link.state.borrow().flow(way);
        let late = match flow {
            Flow::Lost => {
                count(&link.counters.lost, length);
                hole = true;
                if length == 0 {
                    // The end of the stream is dropped like its bytes.
                    let _ = state.wait_for(|state| state.flow(way) != Flow::Lost).await;
                    return Err(Broken::Hole);
                }
                continue;
            }
            Flow::Held => {
                count(&link.counters.held, length);
                Duration::ZERO
            }
            Flow::Late(by) => {
                count(&link.counters.delayed, length);
                by
            }
            Flow::Pass | Flow::HeldFromLarge => Duration::ZERO,
        };
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        let chunk = Chunk { due: Instant::now() + late, bytes };
        if queue.send(chunk).await.is_err() || length == 0 {
            return Ok(());
        }
    }
}

async fn write(mut to: WriteHalf<'_>, mut chunks: mpsc::Receiver<Chunk>, way: Way, link: &Inner) -> Result<(), Broken> {
    let mut state = link.state.subscribe();
    while let Some(Chunk { due, bytes }) = chunks.recv().await {
        sleep_until(due).await;
        let _ = state.wait_for(|state| state.flow(way) != Flow::Held).await;
        if bytes.is_empty() {
            to.shutdown().await?;
            break;
        }
        to.write_all(&bytes).await?;
        count(&link.counters.delivered, bytes.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::{CHUNK_BYTES, LARGE_PIECE_BYTES};
    use crate::chaos::{Chaos, Link, Way};
    use crate::wait::{STEP_TIMEOUT, eventually};

    /// Starts a server that echoes bytes, with its own letter before each connection's first byte.
    fn echo(letter: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let talk = move || {
                    let mut buffer = [0; 4096];
                    let mut said = stream.write_all(&[letter]);
                    while let (Ok(()), Ok(length)) = (&said, stream.read(&mut buffer)) {
                        if length == 0 {
                            return;
                        }
                        said = stream.write_all(&buffer[..length]);
                    }
                };
                std::thread::Builder::new().spawn(talk).unwrap();
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        address
    }

    fn connect(link: &Link) -> TcpStream {
        let stream = TcpStream::connect(link.address()).unwrap();
        stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        stream
    }

    /// Opens a connection and waits for the server's letter.
    fn talking(link: &Link, letter: u8) -> TcpStream {
        let mut stream = connect(link);
        assert_eq!(hear(&mut stream, 1), [letter]);
        stream
    }

    fn hear(stream: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut heard = vec![0; length];
        stream.read_exact(&mut heard).unwrap();
        heard
    }

    fn broken(stream: &mut TcpStream) -> bool {
        matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)) || stream.take_error().unwrap().is_some()
    }

    fn until(what: &str, link: &Link, right: impl Fn(crate::chaos::LinkCounts) -> bool) {
        eventually(what, || if right(link.marks()) { Ok(()) } else { Err(format!("{:?}", link.marks())) });
    }

    #[test]
    fn carries_bytes_and_ends_both_ways() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        let much: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let (mut speaker, said) = (stream.try_clone().unwrap(), much.clone());
        let speak = std::thread::Builder::new().spawn(move || {
            speaker.write_all(&said).unwrap();
            speaker.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        speak.unwrap().join().unwrap();
        assert_eq!(heard, much);
        until("all is counted", &link, |marks| marks.connections == 1 && marks.delivered == 2 * 100_000 + 1);
        assert_eq!(link.parties(), ("a", "b"));
    }

    #[test]
    fn a_cut_breaks_connections_and_refuses_others_until_it_is_healed() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut old = talking(&link, b'b');
        link.cut();
        assert!(broken(&mut old));
        assert!(broken(&mut connect(&link)));
        until("both are counted", &link, |marks| (marks.cut, marks.refused, marks.connections) == (1, 1, 1));
        link.heal();
        let mut new = talking(&link, b'b');
        new.write_all(b"hello").unwrap();
        assert_eq!(hear(&mut new, 5), b"hello");
        assert!(broken(&mut old), "what is cut stays so");
    }

    #[test]
    fn one_direction_is_lost_and_the_other_is_not() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        link.lose(Way::There);
        stream.write_all(b"hello").unwrap();
        until("five bytes are lost", &link, |marks| marks.lost == 5);
        // The opposite direction works: a new connection receives the server's letter, but the server receives nothing.
        let mut other = talking(&link, b'b');
        other.write_all(b"hi").unwrap();
        until("two more are lost", &link, |marks| marks.lost == 7);
        assert_eq!(link.marks().cut, 0, "nobody is told");
        let unharmed = talking(&link, b'b');
        link.heal();
        assert!(broken(&mut stream) && broken(&mut other), "bytes are missing from them");
        let mut unharmed = unharmed;
        unharmed.write_all(b"hello").unwrap();
        assert_eq!(hear(&mut unharmed, 5), b"hello");
        assert_eq!(link.marks().cut, 2);
    }

    #[test]
    fn the_way_back_is_lost() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        link.lose(Way::Back);
        stream.write_all(b"hello").unwrap();
        until("it was heard, and the answer lost", &link, |marks| (marks.delivered, marks.lost) == (6, 5));
        link.heal();
        assert!(broken(&mut stream));
    }

    #[test]
    fn what_is_held_comes_later_and_in_order() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        link.hold();
        stream.write_all(b"first ").unwrap();
        until("it is held", &link, |marks| marks.held == 6);
        stream.write_all(b"second").unwrap();
        until("that too", &link, |marks| marks.held == 12);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let nothing = stream.read(&mut [0; 16]).unwrap_err().kind();
        assert!(matches!(nothing, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
        assert_eq!(link.marks().delivered, 1);
        stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        link.heal();
        assert_eq!(hear(&mut stream, 12), b"first second");
    }

    #[test]
    fn what_is_large_is_held_and_what_came_before_is_not() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        link.hold_from_large(Way::There);
        stream.write_all(b"small").unwrap();
        assert_eq!(hear(&mut stream, 5), b"small");
        let large = vec![7; 3 * CHUNK_BYTES];
        stream.write_all(&large).unwrap();
        until("it is held", &link, |marks| marks.held >= LARGE_PIECE_BYTES as u64);
        let before = link.marks();
        stream.write_all(b"then").unwrap();
        until("and what follows", &link, |marks| marks.held > before.held);
        assert_eq!(link.marks().delivered, before.delivered);
        link.heal();
        assert_eq!(hear(&mut stream, large.len() + 4), [&large[..], b"then"].concat());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a delay is measured in real time")]
    fn what_is_delayed_comes_no_earlier() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut stream = talking(&link, b'b');
        let by = Duration::from_millis(60);
        link.delay(by);
        let began = Instant::now();
        stream.write_all(b"hello").unwrap();
        assert_eq!(hear(&mut stream, 5), b"hello");
        assert!(began.elapsed() >= 2 * by, "there and back: {:?}", began.elapsed());
        assert_eq!(link.marks().delayed, 10);
    }

    #[test]
    fn a_party_that_moved_is_found_and_one_that_is_gone_is_not() {
        let chaos = Chaos::new();
        let link = chaos.link("a", "b", echo(b'b'));
        let mut old = talking(&link, b'b');
        link.retarget(echo(b'c'));
        let _new = talking(&link, b'c');
        old.write_all(b"still").unwrap();
        assert_eq!(hear(&mut old, 5), b"still");
        // The address no longer has a listener.
        link.retarget(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        assert!(broken(&mut connect(&link)));
        until("that is counted", &link, |marks| marks.broken == 1 && marks.connections == 2);
    }

    #[test]
    fn the_links_between_parties_are_found_whoever_connects() {
        let chaos = Chaos::new();
        let target = echo(b'x');
        let links = [("a", "b"), ("b", "a"), ("a", "c"), ("c", "b")].map(|(from, to)| chaos.link(from, to, target));
        let between = chaos.between(&["a"], &["b", "c"]);
        let addresses: Vec<_> = between.iter().map(Link::address).collect();
        assert_eq!(addresses, links[..3].iter().map(Link::address).collect::<Vec<_>>());
    }
}
