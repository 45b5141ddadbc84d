//! The bounded queue of a connection's received bytes, between the one reader of a packet stream and the reader of the connection. With flow control it also holds
//! the credit of the connection's writer.

mod flow;
mod held;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use crate::error::{DialError, Reason, Refused};
use crate::window::{self, Exceeded};
pub(crate) use flow::Flow;
use held::Held;

/// Pieces below this size are copied: each would hold the whole buffer that it was received in.
const COPIED_BELOW: usize = 2 << 10;

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
    held: Held,
    phase: Phase,
    waker: Option<Waker>,
    /// Of a writer that waits for credit.
    writer: Option<Waker>,
    /// Absent if a side of the stream knows no flow control.
    flow: Option<Flow>,
    /// Whether the other side has said that it wants nothing more.
    abandoned: bool,
}

/// A connection's received bytes. It has one reader, and the one task of the reader may wait for several of its conditions at once. The connection's writer may be
/// another task, which waits for credit alone.
#[derive(Debug)]
pub(crate) struct Inbound {
    state: Mutex<State>,
    limit: usize,
}

impl Inbound {
    /// Creates the queue of a connection that is being dialled. Without flow control it has room for `limit` bytes, otherwise for the window. `buffered` counts what it
    /// holds.
    pub(crate) fn new(limit: usize, flow: Option<Flow>, buffered: &Gauge) -> Arc<Self> {
        let state = State {
            queue: VecDeque::new(),
            held: Held::new(buffered),
            phase: Phase::Dialling,
            waker: None,
            writer: None,
            flow,
            abandoned: false,
        };
        Arc::new(Self { state: Mutex::new(state), limit })
    }

    /// Adds received bytes. Bytes for a connection that has ended are dropped.
    ///
    /// # Errors
    /// The connection is broken then, and what was queued is freed.
    pub(crate) fn push(&self, data: Bytes) -> Result<(), Refused> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !matches!(state.phase, Phase::Open(_) | Phase::Dialling) || data.is_empty() {
            return Ok(());
        }
        let cost = window::cost(data.len());
        let refused = match &mut state.flow {
            Some(flow) => flow.received(cost).err().map(|Exceeded| Refused::BeyondWindow),
            // An empty queue takes any packet: the size of one packet has a bound of its own.
            None => {
                let is_full = !state.queue.is_empty() && state.held.bytes() + cost > self.limit;
                (is_full && !seeded_bug!("tunnel_buffers_without_bound")).then_some(Refused::Full)
            }
        };
        if let Some(refused) = refused {
            return state.refuse(refused);
        }
        let data = if data.len() < COPIED_BELOW { Bytes::copy_from_slice(&data) } else { data };
        state.queue.push_back(data);
        state.held.add(cost);
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
            let cost = window::cost(data.len());
            state.held.remove(cost);
            let open = match state.phase {
                Phase::Open(id) => Some(id),
                _ => None,
            };
            if let Some(flow) = &mut state.flow {
                flow.taken(cost, open);
            }
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

    /// Waits until something may be sent, and returns the most bytes of the next packet. The end of the connection wakes the writer, but gives no credit: the caller
    /// asks for it, too.
    pub(crate) fn poll_credit(&self, context: &Context<'_>) -> Poll<usize> {
        let mut state = self.state.lock();
        match state.flow.as_ref().map_or(usize::MAX, Flow::room) {
            0 => {
                state.writer = Some(context.waker().clone());
                Poll::Pending
            }
            room => Poll::Ready(room),
        }
    }

    /// Takes a packet with so many bytes, which is about to be sent, from the credit.
    pub(crate) fn spend(&self, bytes: usize) {
        if let Some(flow) = &mut self.state.lock().flow {
            flow.spend(window::cost(bytes));
        }
    }

    /// Adds credit that the peer has given. Without flow control there is none.
    ///
    /// # Errors
    /// The connection is broken then, and what was queued is freed.
    pub(crate) fn grant(&self, bytes: u64) -> Result<(), Refused> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(flow) = &mut state.flow else { return Ok(()) };
        if flow.grant(bytes).is_err() {
            return state.refuse(Refused::ExcessCredit);
        }
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        Ok(())
    }

    /// Whether the writer must wait until the other side's reader has taken what was sent. Nothing is waited for if the other side wants nothing more.
    pub(crate) fn waits_for_reader(&self) -> bool {
        let state = self.state.lock();
        !state.abandoned && state.flow.as_ref().is_some_and(|flow| flow.room() == 0)
    }

    /// Waits until no bytes have moved in either direction, here or at the other side's reader, for at least `timeout` and less than twice as long. Without flow
    /// control that cannot be told, and the wait takes `timeout`.
    pub(crate) async fn quiet(&self, timeout: Duration) {
        let progress = || self.state.lock().flow.as_ref().map(Flow::progress);
        let mut seen = progress();
        loop {
            clock::sleep(timeout).await;
            let now = progress();
            if now == seen {
                return;
            }
            seen = now;
        }
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
        self.state.lock().held.bytes()
    }
}

impl State {
    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        self.wake();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Breaks the connection, and frees what was queued.
    fn refuse(&mut self, refused: Refused) -> Result<(), Refused> {
        if matches!(self.phase, Phase::Open(_) | Phase::Dialling | Phase::Closed) {
            self.queue = VecDeque::new();
            self.held.clear();
            self.end(Phase::Broken(refused.to_string().into()));
        }
        Err(refused)
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
mod tests;
