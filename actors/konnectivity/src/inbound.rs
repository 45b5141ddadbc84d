//! The bounded queue of a connection's received bytes, between the one reader of a packet stream and the reader of the connection.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

use crate::error::{DialError, Reason};

/// What a queued piece costs besides its bytes.
const PIECE_COST: usize = 64;
/// Pieces below this size are copied: each would hold the whole buffer that it was received in.
const COPIED_BELOW: usize = 2 << 10;
/// Text of the error of a connection whose reader is too slow.
pub(crate) const TOO_SLOW: &str = "the receiver is too slow: the connection's buffer is full";

/// The phase of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The dial is not answered yet.
    Dialling,
    /// Established, with this id.
    Open(i64),
    /// The dial has failed.
    Failed(DialError),
    /// Closed by the other side; what is queued is still read.
    Closed,
    /// Broken, with a text.
    Broken(Arc<str>),
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Bytes>,
    cost: usize,
    phase: Phase,
    waker: Option<Waker>,
    /// Whether the other side has said that it wants nothing more.
    abandoned: bool,
}

/// A connection's received bytes. It has one reader, and the one task of the reader may wait for several of its conditions at once.
#[derive(Debug)]
pub(crate) struct Inbound {
    state: Mutex<State>,
    limit: usize,
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Inbound {
    /// Creates the queue of a connection that is being dialled, for at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let state = State { queue: VecDeque::new(), cost: 0, phase: Phase::Dialling, waker: None, abandoned: false };
        Arc::new(Self { state: Mutex::new(state), limit })
    }

    /// Adds received bytes. Bytes for a connection that has ended are dropped.
    ///
    /// # Errors
    /// [`Full`]. The connection is broken then, and what was queued is freed.
    pub(crate) fn push(&self, data: Bytes) -> Result<(), Full> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Open(_) | Phase::Dialling) || data.is_empty() {
            return Ok(());
        }
        let cost = data.len() + PIECE_COST;
        // An empty queue takes any packet: the size of one packet has a bound of its own.
        if !state.queue.is_empty() && state.cost + cost > self.limit && !seeded_bug!("tunnel_buffers_without_bound") {
            state.queue = VecDeque::new();
            state.cost = 0;
            state.end(Phase::Broken(TOO_SLOW.into()));
            return Err(Full);
        }
        let data = if data.len() < COPIED_BELOW { Bytes::copy_from_slice(&data) } else { data };
        state.queue.push_back(data);
        state.cost += cost;
        state.wake();
        Ok(())
    }

    /// Establishes the connection. Returns whether the dial was not given up before.
    pub(crate) fn open(&self, connect_id: i64) -> bool {
        let mut state = self.state.lock();
        let is_wanted = state.phase == Phase::Dialling;
        if is_wanted {
            state.phase = Phase::Open(connect_id);
            state.wake();
        }
        is_wanted
    }

    /// Gives the dial up. Returns the connection's id if the connection is established already.
    pub(crate) fn give_up(&self) -> Option<i64> {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Open(id) => Some(id),
            Phase::Dialling => {
                state.end(Phase::Failed(DialError::new(Reason::Lost, "the dial was given up")));
                None
            }
            Phase::Failed(_) | Phase::Closed | Phase::Broken(_) => None,
        }
    }

    /// Ends a dial without a connection.
    pub(crate) fn fail(&self, error: DialError) {
        let mut state = self.state.lock();
        if state.phase == Phase::Dialling {
            state.end(Phase::Failed(error));
        }
    }

    /// Ends the connection: orderly, or with the text of an error. A second orderly end says that the other side wants nothing more.
    pub(crate) fn end(&self, error: Option<&str>) {
        let mut state = self.state.lock();
        match (&state.phase, error) {
            (Phase::Dialling, error) => {
                let text = error.unwrap_or("closed before the dial was answered");
                state.end(Phase::Failed(DialError::new(Reason::Lost, text)));
            }
            (Phase::Open(_), None) => state.end(Phase::Closed),
            (Phase::Open(_), Some(error)) => state.end(Phase::Broken(error.into())),
            (Phase::Closed, None) => {
                state.abandoned = true;
                state.wake();
            }
            (Phase::Failed(_) | Phase::Closed | Phase::Broken(_), _) => {}
        }
    }

    /// Waits until the dial is answered, and returns the connection's id.
    pub(crate) fn poll_open(&self, context: &Context<'_>) -> Poll<Result<i64, DialError>> {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Dialling => state.wait(context),
            Phase::Open(id) => Poll::Ready(Ok(*id)),
            Phase::Failed(error) => Poll::Ready(Err(error.clone())),
            Phase::Closed => Poll::Ready(Err(DialError::new(Reason::Lost, "closed"))),
            Phase::Broken(text) => Poll::Ready(Err(DialError::new(Reason::Lost, text.to_string()))),
        }
    }

    /// Waits for the next piece; `None` after the last one.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.state.lock();
        if let Some(data) = state.queue.pop_front() {
            state.cost = state.cost.saturating_sub(data.len() + PIECE_COST);
            return Poll::Ready(Some(Ok(data)));
        }
        match state.error() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None if state.phase == Phase::Closed => Poll::Ready(None),
            None => state.wait(context),
        }
    }

    /// Waits until the connection breaks.
    pub(crate) fn poll_broken(&self, context: &Context<'_>) -> Poll<io::Error> {
        let mut state = self.state.lock();
        match state.error() {
            Some(error) => Poll::Ready(error),
            None => state.wait(context),
        }
    }

    /// Waits for the orderly end, which the reader may not have reached.
    pub(crate) fn poll_closed(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.phase == Phase::Closed { Poll::Ready(()) } else { state.wait(context) }
    }

    /// Waits until the other side says that it wants nothing more.
    pub(crate) fn poll_abandoned(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.abandoned { Poll::Ready(()) } else { state.wait(context) }
    }

    /// Returns the error that a writer gets, once the connection has ended.
    pub(crate) fn ended(&self) -> Option<io::Error> {
        let state = self.state.lock();
        let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the other side has closed the connection");
        state.error().or_else(|| (state.phase == Phase::Closed).then(closed))
    }

    /// Returns the number of bytes that wait for the reader.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().cost
    }
}

impl State {
    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn error(&self) -> Option<io::Error> {
        match &self.phase {
            Phase::Broken(text) => Some(io::Error::new(io::ErrorKind::ConnectionReset, text.to_string())),
            Phase::Failed(error) => Some(error.clone().into()),
            Phase::Dialling | Phase::Open(_) | Phase::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt as _;

    use super::*;

    fn next(inbound: &Inbound) -> Option<Option<io::Result<Bytes>>> {
        poll_fn(|context| inbound.poll_next(context)).now_or_never()
    }

    #[test]
    fn a_full_queue_breaks_the_connection_and_frees_what_it_held() {
        let inbound = Inbound::new(10_000);
        assert!(inbound.open(1));
        let piece = Bytes::from(vec![7; 3_000]);
        for _ in 0..3 {
            inbound.push(piece.clone()).unwrap();
        }
        assert_eq!(inbound.waiting(), 3 * (3_000 + PIECE_COST));
        assert_eq!(inbound.push(piece), Err(Full));
        assert_eq!(inbound.waiting(), 0);
        let error = next(&inbound).unwrap().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::ConnectionReset, TOO_SLOW));
        assert_eq!(inbound.ended().unwrap().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn many_small_pieces_count_with_what_each_costs() {
        let inbound = Inbound::new(10_000);
        assert!(inbound.open(1));
        let taken = (0..).take_while(|_| inbound.push(Bytes::from_static(b"x")).is_ok()).count();
        assert_eq!(taken, 10_000 / (1 + PIECE_COST));
    }

    #[test]
    fn a_closed_connection_is_read_to_its_end_and_an_id_is_given_once() {
        let inbound = Inbound::new(10_000);
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
        let inbound = Inbound::new(10_000);
        inbound.end(Some("agent lost"));
        let error = poll_fn(|context| inbound.poll_open(context)).now_or_never().unwrap().unwrap_err();
        assert_eq!((error.reason(), error.to_string().as_str()), (Reason::Lost, "agent lost"));
    }
}
