use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::stream::TunnelStream;
use super::*;
use crate::limits::CLOSE_TIMEOUT;
use crate::link::{Outbound, link};
use crate::metrics::Segment;

const LIMITS: Limits = Limits { buffer: 10_000, ..Limits::SERVER };

fn backend() -> (Arc<Backend>, Outbound) {
    let (link, outbound) = link(Segment::TO_AGENT);
    (Backend::new("a".to_owned(), Identifiers::default(), link, LIMITS), outbound)
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
    let answer = async {
        let request = outbound.next().await.unwrap();
        backend.receive(packet::dialled(random(&[request]), 5)).unwrap();
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
    let counted = FAMILIES.slow.get();
    for _ in 0..100 {
        backend.receive(packet::data(5, Bytes::from(vec![7; 1000]))).unwrap();
    }
    assert_eq!(sent(&mut outbound), [packet::close(5), packet::close(5)]);
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::ConnectionReset, TOO_SLOW));
    // Not equal: other tests of the process may count too.
    assert!(FAMILIES.slow.get() > counted);
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
