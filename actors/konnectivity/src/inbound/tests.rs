use std::future::poll_fn;

use futures::{FutureExt as _, StreamExt as _};

use super::*;
use crate::link::{Link, MANY_CONNECTIONS, Outbound, link};
use crate::metrics::Segment;
use crate::packet;
use crate::window::{PACKET_COST, Windows};

fn next(inbound: &Inbound) -> Option<Option<io::Result<Bytes>>> {
    poll_fn(|context| inbound.poll_next(context)).now_or_never()
}

#[test]
fn a_full_queue_breaks_the_connection_and_frees_what_it_held() {
    let inbound = Inbound::new(10_000, None, &Gauge::default());
    assert!(inbound.open(1));
    let piece = Bytes::from(vec![7; 3_000]);
    for _ in 0..3 {
        inbound.push(piece.clone()).unwrap();
    }
    assert_eq!(inbound.waiting(), 3 * (3_000 + PACKET_COST));
    assert_eq!(inbound.push(piece), Err(Refused::Full));
    assert_eq!(inbound.waiting(), 0);
    let error = next(&inbound).unwrap().unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (io::ErrorKind::ConnectionReset, Refused::Full.to_string().as_str())
    );
    assert_eq!(inbound.ended().unwrap().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn many_small_pieces_count_with_what_each_costs() {
    let inbound = Inbound::new(10_000, None, &Gauge::default());
    assert!(inbound.open(1));
    let taken = (0..).take_while(|_| inbound.push(Bytes::from_static(b"x")).is_ok()).count();
    assert_eq!(taken, 10_000 / (1 + PACKET_COST));
}

#[test]
fn a_closed_connection_is_read_to_its_end_and_an_id_is_given_once() {
    let inbound = Inbound::new(10_000, None, &Gauge::default());
    assert!(poll_fn(|context| inbound.poll_open(context)).now_or_never().is_none());
    assert!(inbound.open(4));
    assert!(!inbound.open(5));
    assert_eq!(poll_fn(|context| inbound.poll_open(context)).now_or_never(), Some(Ok(4)));
    inbound.push(Bytes::from_static(b"last")).unwrap();
    assert!(inbound.ended().is_none());
    inbound.end(None);
    inbound.end(Some("too late to be an error"));
    inbound.push(Bytes::from_static(b"after the end")).unwrap();
    assert_eq!(next(&inbound).unwrap().unwrap().unwrap(), "last");
    assert!(next(&inbound).unwrap().is_none());
    assert_eq!(inbound.ended().unwrap().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_connection_that_ends_while_it_is_dialled_has_failed() {
    let inbound = Inbound::new(10_000, None, &Gauge::default());
    inbound.end(Some("agent lost"));
    let error = poll_fn(|context| inbound.poll_open(context)).now_or_never().unwrap().unwrap_err();
    assert_eq!((error.reason(), error.to_string().as_str()), (Reason::Lost, "agent lost"));
}

/// Returns an established connection that may receive 10,000 and send 5,000, and what is sent to its peer.
fn windowed() -> (Arc<Inbound>, Outbound, Link) {
    let (link, outbound) = link(Segment::TO_AGENT, MANY_CONNECTIONS);
    let inbound = Inbound::new(0, Some(Flow::new(Windows { own: 10_000, peer: 5_000 }, &link)), &Gauge::default());
    assert!(inbound.open(3));
    (inbound, outbound, link)
}

fn room(inbound: &Inbound) -> Option<usize> {
    poll_fn(|context| inbound.poll_credit(context)).now_or_never()
}

#[tokio::test(start_paused = true)]
async fn credit_goes_back_as_the_reader_takes_and_what_waits_becomes_one_packet() {
    let (inbound, mut outbound, _link) = windowed();
    for _ in 0..10 {
        inbound.push(Bytes::from(vec![7; 1_000 - PACKET_COST])).unwrap();
    }
    assert_eq!(inbound.waiting(), 10_000);
    for taken in 1..=10 {
        assert_eq!(next(&inbound).unwrap().unwrap().unwrap().len(), 1_000 - PACKET_COST);
        if taken == 4 {
            assert!(outbound.next().now_or_never().is_none());
        }
    }
    assert_eq!(outbound.next().now_or_never(), Some(Some(packet::window(3, 10_000))), "two halves");
    assert!(outbound.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_may_send_no_more_gets_no_credit() {
    let (inbound, mut outbound, _link) = windowed();
    inbound.push(Bytes::from(vec![7; 9_000])).unwrap();
    inbound.end(None);
    assert_eq!(next(&inbound).unwrap().unwrap().unwrap().len(), 9_000);
    assert!(outbound.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_beyond_its_credit_breaks_the_connection() {
    let (inbound, ..) = windowed();
    inbound.push(Bytes::from(vec![7; 9_900])).unwrap();
    assert_eq!(inbound.push(Bytes::from_static(b"x")), Err(Refused::BeyondWindow));
    assert_eq!(inbound.waiting(), 0);
    let error = next(&inbound).unwrap().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::ConnectionReset, Refused::BeyondWindow.to_string()));
    // Not even the first packet may be larger than the window.
    let (inbound, ..) = windowed();
    assert_eq!(inbound.push(Bytes::from(vec![7; 10_000])), Err(Refused::BeyondWindow));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_gives_more_credit_than_its_window_breaks_the_connection() {
    let (inbound, ..) = windowed();
    inbound.spend(1_000);
    inbound.grant(1_000).unwrap();
    assert_eq!(inbound.grant(65), Err(Refused::ExcessCredit));
    assert_eq!(inbound.ended().unwrap().to_string(), Refused::ExcessCredit.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_credit_is_woken_by_credit_and_by_every_end() {
    let (inbound, ..) = windowed();
    assert_eq!(room(&inbound), Some(5_000 - PACKET_COST));
    inbound.spend(5_000 - PACKET_COST);
    assert_eq!((room(&inbound), inbound.waits_for_reader()), (None, true));
    let (reader, mut writer) =
        (poll_fn(|context| inbound.poll_next(context)), poll_fn(|context| inbound.poll_credit(context)));
    let mut reader = std::pin::pin!(reader);
    assert!(futures::poll!(&mut reader).is_pending());
    let (waits, grants) = (async { (&mut writer).await }, async { inbound.grant(500) });
    assert_eq!(futures::join!(waits, grants), (500 - PACKET_COST, Ok(())));
    type End = fn(&Inbound);
    let ends: [End; 4] = [
        |inbound| inbound.end(None),
        |inbound| inbound.end(Some("lost")),
        |inbound| assert!(inbound.push(Bytes::from(vec![7; 10_000])).is_err()),
        |inbound| assert!(inbound.grant(5_001).is_err()),
    ];
    for end in ends {
        let (inbound, ..) = windowed();
        inbound.spend(5_000);
        let waits = poll_fn(|context| match (inbound.poll_credit(context), inbound.ended()) {
            (_, Some(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        });
        let (_, ()) = futures::join!(waits, async { end(&inbound) });
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_quiet_when_nothing_has_moved_for_the_time() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let (inbound, ..) = windowed();
    let begun = clock::now();
    let moves = async {
        clock::sleep(Duration::from_secs(5)).await;
        inbound.spend(1_000);
        clock::sleep(Duration::from_secs(10)).await;
        inbound.grant(1_000).unwrap();
        clock::sleep(Duration::from_secs(10)).await;
        inbound.push(Bytes::from_static(b"x")).unwrap();
        assert!(next(&inbound).unwrap().unwrap().is_ok());
    };
    futures::join!(inbound.quiet(TIMEOUT), moves);
    assert_eq!(begun.elapsed(), 4 * TIMEOUT);
    let (inbound, begun) = (Inbound::new(10_000, None, &Gauge::default()), clock::now());
    inbound.quiet(TIMEOUT).await;
    assert_eq!(begun.elapsed(), TIMEOUT);
}

#[test]
fn a_gauge_counts_what_all_queues_hold_until_they_are_dropped() {
    let gauge = Gauge::default();
    let queues = [(); 2].map(|()| Inbound::new(10_000, None, &gauge));
    for queue in &queues {
        assert!(queue.open(1));
        queue.push(Bytes::from(vec![7; 3_000])).unwrap();
        queue.push(Bytes::from(vec![7; 2_000])).unwrap();
    }
    let [one, two] = [3_000, 2_000].map(|bytes: usize| i64::try_from(bytes + PACKET_COST).unwrap());
    assert_eq!(gauge.get(), 2 * (one + two));
    next(&queues[0]).unwrap().unwrap().unwrap();
    assert_eq!(gauge.get(), one + 2 * two);
    // What waits is still read after an orderly end, and after that of the stream.
    queues[0].end(None);
    queues[1].end(Some("the agent was lost"));
    assert_eq!(gauge.get(), one + 2 * two);
    drop(queues);
    assert_eq!(gauge.get(), 0);
    let refused = Inbound::new(10_000, None, &gauge);
    refused.push(Bytes::from(vec![7; 9_000])).unwrap();
    refused.push(Bytes::from(vec![7; 9_000])).unwrap_err();
    assert_eq!(gauge.get(), 0, "a connection that is reset holds nothing");
}
