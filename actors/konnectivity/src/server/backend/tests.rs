use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::stream::TunnelStream;
use super::*;
use crate::limits::CLOSE_TIMEOUT;
use crate::link::{MANY_CONNECTIONS, Outbound, link};
use crate::metrics::Segment;
use crate::window::PACKET_COST;

const LIMITS: Limits = Limits { buffer: 10_000, ..Limits::SERVER };

/// A window of the agent that is smaller than any queue on the way to it, and one of the server that is as large as its buffer.
const WINDOWS: Windows = Windows { own: 10_000, peer: 50_000 };

fn backend() -> (Arc<Backend>, Outbound) {
    backend_with(None)
}

fn backend_with(windows: Option<Windows>) -> (Arc<Backend>, Outbound) {
    let (link, outbound) = link(Segment::TO_AGENT, MANY_CONNECTIONS);
    (Backend::new("a".to_owned(), Identifiers::default(), link, LIMITS, windows), outbound)
}

/// Returns the packets that wait to be sent.
fn sent(outbound: &mut Outbound) -> Vec<Packet> {
    std::iter::from_fn(|| outbound.next().now_or_never().flatten()).collect()
}

fn random(packets: &[Packet]) -> i64 {
    match packet::payload(packets[0].clone()) {
        Some(oarlock_contracts::konnectivity::packet::Payload::DialRequest(request)) => request.random,
        other => panic!("{other:?}"),
    }
}

async fn established(backend: &Arc<Backend>, outbound: &mut Outbound) -> TunnelStream {
    established_as(5, backend, outbound).await
}

async fn established_as(id: i64, backend: &Arc<Backend>, outbound: &mut Outbound) -> TunnelStream {
    let answer = async {
        let request = outbound.next().await.unwrap();
        backend.receive(packet::dialled(random(&[request]), id)).unwrap();
    };
    let deadline = clock::after(LIMITS.dial_timeout);
    let (dialled, ()) = futures::join!(TunnelStream::dial(Arc::clone(backend), "10.0.0.1:1", deadline), answer);
    dialled.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_dial_is_a_timeout_that_withdraws_the_dial() {
    let (backend, mut outbound) = backend();
    let begun = clock::now();
    let error = backend.dial("10.0.0.1:1", clock::after(LIMITS.dial_timeout)).await.unwrap_err();
    assert_eq!((error.reason(), begun.elapsed()), (Reason::Timeout, LIMITS.dial_timeout));
    let packets = sent(&mut outbound);
    let random = random(&packets);
    assert_eq!(packets, [packet::dial(random, "10.0.0.1:1"), packet::close_dial(random)]);
    assert_eq!(backend.counts(), (0, 0));
    backend.receive(packet::dialled(random, 3)).unwrap();
    assert_eq!(sent(&mut outbound), [packet::close(3)], "a late answer closes the connection");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_the_moment_of_the_answer_leaves_no_connection() {
    let (backend, mut outbound) = backend();
    {
        let mut dial = Box::pin(backend.dial("10.0.0.1:1", clock::after(LIMITS.dial_timeout)));
        assert!(futures::poll!(&mut dial).is_pending());
        backend.receive(packet::dialled(random(&sent(&mut outbound)), 5)).unwrap();
        assert_eq!(backend.counts(), (0, 1));
    }
    assert_eq!((sent(&mut outbound), backend.counts()), (vec![packet::close(5), packet::close(5)], (0, 0)));
    // The same between two steps of the answer, as on two threads.
    let mut dial = Box::pin(backend.dial("10.0.0.1:1", clock::after(LIMITS.dial_timeout)));
    assert!(futures::poll!(&mut dial).is_pending());
    let answer = packet::dialled(random(&sent(&mut outbound)), 6);
    let effect = backend.connections.lock().receive(answer, clock::now());
    drop(dial);
    backend.apply(effect).unwrap();
    assert_eq!((sent(&mut outbound), backend.counts()), (vec![packet::close(6), packet::close(6)], (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_close_ends_the_reader_after_a_time() {
    let (backend, mut outbound) = backend();
    let mut stream = established(&backend, &mut outbound).await;
    stream.write_all(b"last").await.unwrap();
    stream.shutdown().await.unwrap();
    let data = packet::data(5, Bytes::from_static(b"last"));
    assert_eq!(sent(&mut outbound), [data, packet::close(5)], "the close follows the data");
    assert_eq!(stream.write_all(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    backend.receive(packet::data(5, Bytes::from_static(b"answer"))).unwrap();
    let (begun, mut answer) = (clock::now(), Vec::new());
    assert_eq!(stream.read_to_end(&mut answer).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(answer, b"answer");
    assert_eq!(begun.elapsed(), CLOSE_TIMEOUT + Duration::from_secs(5));
    drop(stream);
    assert_eq!((sent(&mut outbound), backend.counts()), (vec![packet::close(5)], (0, 0)), "nothing more is wanted");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_too_slow_is_reset_and_the_agent_gets_a_close() {
    let (backend, mut outbound) = backend();
    let mut stream = established(&backend, &mut outbound).await;
    let counted = FAMILIES.server_flow.slow.get();
    for _ in 0..100 {
        backend.receive(packet::data(5, Bytes::from(vec![7; 1000]))).unwrap();
    }
    assert_eq!(sent(&mut outbound), [packet::close(5), packet::close(5)]);
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::ConnectionReset, Refused::Full.to_string().as_str())
    );
    // Not equal: other tests of the process may count too.
    assert!(FAMILIES.server_flow.slow.get() > counted);
    assert_eq!(stream.write_all(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(backend.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_ends_dials_and_connections_with_its_reason() {
    let (backend, mut outbound) = backend();
    let mut stream = established(&backend, &mut outbound).await;
    let end = async {
        outbound.next().await.unwrap();
        backend.end("agent lost");
    };
    let (dialled, ()) = futures::join!(backend.dial("10.0.0.1:1", clock::after(LIMITS.dial_timeout)), end);
    assert_eq!(dialled.unwrap_err(), DialError::new(Reason::Lost, "agent lost"));
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::ConnectionReset, "agent lost"));
    let late = backend.dial("10.0.0.1:1", clock::after(LIMITS.dial_timeout)).await.unwrap_err();
    assert_eq!(late.reason(), Reason::Lost);
}

/// Writes until the stream must wait. Returns the number of bytes.
fn fill(stream: &mut TunnelStream) -> usize {
    let writes = std::iter::from_fn(|| stream.write(&[7; 1_000]).now_or_never());
    writes.map(Result::unwrap).sum()
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_credit_waits_and_holds_up_no_other_connection() {
    let (backend, mut outbound) = backend_with(Some(WINDOWS));
    let mut slow = established(&backend, &mut outbound).await;
    let mut other = established_as(6, &backend, &mut outbound).await;
    // 46 packets of 1,000 bytes and one with the rest, each with its cost.
    let written = fill(&mut slow);
    assert_eq!(written, WINDOWS.peer - 47 * PACKET_COST);
    assert_eq!(sent(&mut outbound).len(), 47);
    other.write_all(b"x").await.unwrap();
    assert_eq!(sent(&mut outbound), [packet::data(6, Bytes::from_static(b"x"))]);
    let more = async { slow.write(&[8; 1_000]).await.unwrap() };
    let credit = async { backend.receive(packet::window(5, 500)).unwrap() };
    assert_eq!(futures::join!(more, credit), (500 - PACKET_COST, ()));
    assert_eq!(sent(&mut outbound), [packet::data(5, Bytes::from(vec![8; 500 - PACKET_COST]))]);
    assert!(slow.write(b"x").now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_for_credit_ends_with_its_connection() {
    let ends = [
        (packet::closed(5, "reset by the destination"), ErrorKind::ConnectionReset, "reset by the destination"),
        (packet::closed(5, ""), ErrorKind::BrokenPipe, "closed the connection"),
        (packet::window(5, 50_001), ErrorKind::ConnectionReset, "more credit than"),
    ];
    for (end, kind, text) in ends {
        let (backend, mut outbound) = backend_with(Some(WINDOWS));
        let mut stream = established(&backend, &mut outbound).await;
        fill(&mut stream);
        let (written, ()) = futures::join!(stream.write_all(b"x"), async { backend.receive(end).unwrap() });
        let error = written.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(backend.counts(), (0, 0));
    }
    let (backend, mut outbound) = backend_with(Some(WINDOWS));
    let mut stream = established(&backend, &mut outbound).await;
    fill(&mut stream);
    let (written, ()) = futures::join!(stream.write_all(b"x"), async { backend.end("agent lost") });
    assert_eq!(written.unwrap_err().to_string(), "agent lost");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_lies_about_its_credit_loses_that_connection_alone() {
    let (backend, mut outbound) = backend_with(Some(WINDOWS));
    let mut honest = established_as(6, &backend, &mut outbound).await;
    let counted = FAMILIES.server_flow.violations.get();
    // The first sends beyond its credit, the second gives more than it has.
    for n in 0..2 {
        let mut stream = established(&backend, &mut outbound).await;
        for _ in 0..10 {
            backend.receive(packet::data(5, Bytes::from(vec![7; 1_000 - PACKET_COST]))).unwrap();
        }
        assert_eq!(sent(&mut outbound), []);
        let lie = if n == 0 { packet::data(5, Bytes::from_static(b"x")) } else { packet::window(5, 1) };
        backend.receive(lie).unwrap();
        assert_eq!(sent(&mut outbound), [packet::close(5), packet::close(5)]);
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        drop(stream);
        backend.receive(packet::closed(5, "")).unwrap();
    }
    // Not equal: other tests of the process may count too.
    assert!(FAMILIES.server_flow.violations.get() >= counted + 2);
    let unknown = FAMILIES.server_flow.unknown.get();
    backend.receive(packet::window(77, 1)).unwrap();
    assert!(FAMILIES.server_flow.unknown.get() > unknown);
    backend.receive(packet::data(6, Bytes::from_static(b"truth"))).unwrap();
    let mut read = [0; 5];
    honest.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"truth");
}

#[tokio::test(start_paused = true)]
async fn the_rest_after_a_half_close_takes_as_long_as_its_bytes_move() {
    let (backend, mut outbound) = backend_with(Some(WINDOWS));
    let mut stream = established(&backend, &mut outbound).await;
    stream.write_all(b"request").await.unwrap();
    stream.shutdown().await.unwrap();
    let begun = clock::now();
    let agent = async {
        for _ in 0..5 {
            clock::sleep(CLOSE_TIMEOUT).await;
            backend.receive(packet::window(5, 1)).unwrap();
        }
        for _ in 0..5 {
            clock::sleep(CLOSE_TIMEOUT).await;
            backend.receive(packet::data(5, Bytes::from_static(b"x"))).unwrap();
        }
        backend.receive(packet::closed(5, "")).unwrap();
    };
    let mut rest = Vec::new();
    let (read, ()) = futures::join!(stream.read_to_end(&mut rest), agent);
    assert_eq!((read.unwrap(), rest.as_slice(), begun.elapsed()), (5, &b"xxxxx"[..], 10 * CLOSE_TIMEOUT));
}
