//! The answers of one connection that its client has not read, and the time that the client has for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

use crate::inflight::Seat;

/// Number of bytes for which a client gets one more second. Upstream gives no more time, however slow the line is. What the buffers of the kernel hold
/// counts as read, some megabytes.
const BYTES_PER_SECOND: u64 = 128 << 10;
/// Number of checks within the time that a client has at least.
const CHECKS: u32 = 4;
/// Minimum time between two checks, however short the time limit of requests is.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a client may take for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The time runs from the start of the answer, and grows with the bytes of the answer that were sent.
    Whole,
    /// The time runs while bytes of the answer wait and none of them is sent. It grows with the bytes that the connection sends meanwhile, since the
    /// streams of a slow connection wait for each other.
    Progress,
}

/// The unread answers of a connection, as an extension of its requests.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct ConnectionAnswers(Arc<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// Number of bytes that the connection has sent.
    sent: AtomicU64,
    open: Mutex<Open>,
}

/// Answers in places that are used again: most connections have one answer at a time, for which nothing is allocated.
#[derive(Debug, Default)]
struct Open {
    places: Vec<Option<OpenAnswer>>,
    free: Vec<usize>,
}

impl Open {
    /// Adds an answer; returns its place.
    fn add(&mut self, answer: OpenAnswer) -> usize {
        if let Some(at) = self.free.pop()
            && let Some(place) = self.places.get_mut(at)
        {
            *place = Some(answer);
            return at;
        }
        self.places.push(Some(answer));
        self.places.len() - 1
    }

    fn remove(&mut self, at: usize) {
        if self.places.get_mut(at).and_then(Option::take).is_some() {
            self.free.push(at);
        }
    }

    const fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

/// An answer as the last check has found it.
#[derive(Debug)]
struct OpenAnswer {
    bytes: Arc<ByteCount>,
    pace: Pace,
    /// Start of the time.
    since: Instant,
    /// Number of bytes of the answer that had been sent by then.
    sent: u64,
    /// Number of bytes that the connection had sent by then.
    connection: u64,
}

/// Bytes of one answer.
#[derive(Debug, Default)]
struct ByteCount {
    /// Number of bytes that were handed to the connection.
    handed: AtomicU64,
    /// Number of these bytes that were sent, or dropped with their stream.
    sent: AtomicU64,
}

impl OpenAnswer {
    /// Whether the time of the answer is over.
    fn is_overdue(&mut self, now: Instant, patience: Duration, connection: u64) -> bool {
        let sent = self.bytes.sent.load(Ordering::Relaxed);
        let read = match self.pace {
            Pace::Whole => sent,
            Pace::Progress => {
                let waits = self.bytes.handed.load(Ordering::Relaxed) > sent;
                if !waits || sent != self.sent {
                    (self.since, self.sent, self.connection) = (now, sent, connection);
                    return false;
                }
                connection.saturating_sub(self.connection)
            }
        };
        let earned = Duration::from_millis(read.saturating_mul(1000) / BYTES_PER_SECOND);
        now >= self.since + patience + earned
    }
}

impl ConnectionAnswers {
    /// Waits until the client has not read one of the answers for too long: for `patience`, and longer if it reads slowly.
    pub(in crate::http) async fn overdue(&self, patience: Duration) {
        loop {
            clock::sleep((patience / CHECKS).max(MIN_CHECK_INTERVAL)).await;
            if self.is_overdue(clock::now(), patience) {
                return;
            }
        }
    }

    fn is_overdue(&self, now: Instant, patience: Duration) -> bool {
        if seeded_bug!("answers_wait_for_ever") {
            return false;
        }
        let connection = self.0.sent.load(Ordering::Relaxed);
        self.0.open.lock().places.iter_mut().flatten().any(|answer| answer.is_overdue(now, patience, connection))
    }

    /// Returns the number of answers that are not yet sent as a whole, without watches that have sent all their events.
    pub(super) fn waiting(&self) -> usize {
        self.0.open.lock().count()
    }

    /// Adds an answer that is ready now, with the room that it takes.
    pub(super) fn add(&self, pace: Pace, now: Instant, seat: Option<Seat>) -> Arc<UnreadAnswer> {
        let bytes = Arc::new(ByteCount::default());
        let answer = OpenAnswer {
            bytes: Arc::clone(&bytes),
            pace,
            since: now,
            sent: 0,
            connection: self.0.sent.load(Ordering::Relaxed),
        };
        let place = self.0.open.lock().add(answer);
        Arc::new(UnreadAnswer { bytes, connection: self.clone(), place, _seat: seat })
    }
}

/// An answer of a connection, and the room that it takes until its last byte is sent or dropped.
#[derive(Debug)]
pub(super) struct UnreadAnswer {
    bytes: Arc<ByteCount>,
    connection: ConnectionAnswers,
    place: usize,
    _seat: Option<Seat>,
}

impl UnreadAnswer {
    /// Counts bytes that are handed to the connection.
    pub(super) fn handed(&self, bytes: u64) {
        self.bytes.handed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that the connection has sent, or dropped with their stream.
    pub(super) fn sent(&self, bytes: u64) {
        self.bytes.sent.fetch_add(bytes, Ordering::Relaxed);
        self.connection.0.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        self.connection.0.open.lock().remove(self.place);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::super::body::Piece;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn part(answer: &Arc<UnreadAnswer>, length: usize) -> Piece {
        Piece::counted(vec![0; length].into(), answer)
    }

    /// Whether the connection is ended within `time`.
    async fn ends(connection: &ConnectionAnswers, time: Duration) -> bool {
        clock::timeout(time, connection.overdue(PATIENCE)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_which_nothing_is_read_ends_its_connection() {
        for pace in [Pace::Whole, Pace::Progress] {
            let connection = ConnectionAnswers::default();
            let answer = connection.add(pace, clock::now(), None);
            let mut unread = part(&answer, 10);
            unread.advance(7);
            assert!(!ends(&connection, PATIENCE * 3 / 4).await, "{pace:?}");
            assert!(ends(&connection, PATIENCE).await, "{pace:?}");
            drop((answer, unread));
            assert_eq!(connection.waiting(), 0);
            assert!(!ends(&connection, 10 * PATIENCE).await, "what was sent waits no more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_read_goes_on_however_slowly_and_one_without_events_too() {
        let connection = ConnectionAnswers::default();
        let watch = connection.add(Pace::Progress, clock::now(), None);
        for _ in 0..20 {
            let next = part(&watch, 1);
            assert!(!ends(&connection, PATIENCE / 2).await);
            drop(next);
        }
        assert!(!ends(&connection, 10 * PATIENCE).await);
        let _unread = part(&watch, 1);
        assert!(ends(&connection, 3 * PATIENCE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_read_byte_by_byte_comes_to_an_end() {
        let connection = ConnectionAnswers::default();
        let list = connection.add(Pace::Whole, clock::now(), None);
        let next = part(&list, usize::try_from(BYTES_PER_SECOND).unwrap() * 600);
        drop(next);
        assert!(!ends(&connection, 10 * PATIENCE).await, "who has read much has more time");
        let mut rest = std::iter::repeat_with(|| part(&list, 1));
        let reading = async {
            loop {
                let _next = rest.next();
                clock::sleep(PATIENCE / 2).await;
            }
        };
        tokio::select! {
            () = connection.overdue(PATIENCE) => {}
            () = async { clock::timeout(10 * PATIENCE, reading).await.unwrap_or(()) } => panic!("it goes on"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_wait_for_each_other_on_a_slow_connection_have_time() {
        let connection = ConnectionAnswers::default();
        let (behind, other) =
            (connection.add(Pace::Progress, clock::now(), None), connection.add(Pace::Progress, clock::now(), None));
        let _behind = part(&behind, 10);
        for _ in 0..300 {
            drop(part(&other, usize::try_from(BYTES_PER_SECOND).unwrap()));
            assert!(!ends(&connection, Duration::from_secs(1)).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn places_of_answers_are_used_again() {
        let connection = ConnectionAnswers::default();
        let add = || connection.add(Pace::Progress, clock::now(), None);
        let (first, second) = (add(), add());
        drop(first);
        let again = add();
        assert_eq!((again.place, connection.waiting()), (0, 2));
        drop(again);
        assert_eq!(connection.waiting(), 1);
        let all: Vec<_> = (0..3).map(|_| add()).collect();
        assert_eq!((connection.waiting(), all[0].place, second.place), (4, 0, 1));
        drop((all, second));
        assert_eq!((connection.waiting(), connection.0.open.lock().places.len()), (0, 4));
    }
}
