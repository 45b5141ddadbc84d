//! The connections of one agent's stream, as the side that dials: which packet means what, apart from any I/O.
//!
//! ```text
//! dial ─▶ dialling ── DIAL_RSP ──▶ open ── CLOSE_RSP ──▶ (ended)
//!             │ DIAL_RSP with an error, DIAL_CLS           │ close
//!             ▼                                            ▼
//!          (failed)                                     closing ── CLOSE_RSP, or its time is over ──▶ (ended)
//! ```
//!
//! Ids count for this stream only, so an agent can neither answer another agent's dials nor send on another agent's connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use oarlock_contracts::konnectivity::Packet;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_runtime::Instant;

use crate::error::{DialError, Reason};
use crate::limits::CLOSE_TIMEOUT;
use crate::packet;

/// The most dials of a stream without an answer.
const MAX_DIALS: usize = 1024;
/// The most connections of a stream that wait for `CLOSE_RSP` although they have no reader any more.
const MAX_CLOSING: usize = 65_536;

/// The connections of a stream. `C` is the owner's handle of a connection.
#[derive(Debug)]
pub(crate) struct Connections<C> {
    dialling: BTreeMap<i64, C>,
    open: BTreeMap<i64, Open<C>>,
    /// Connections without a reader, whose `CLOSE_RSP` is outstanding.
    closing: BTreeSet<i64>,
    /// The times until which packets of `closing` are expected, in order. May hold ids that have left `closing`.
    closing_until: VecDeque<(Instant, i64)>,
    max: usize,
    ended: bool,
}

#[derive(Debug)]
struct Open<C> {
    connection: C,
    /// Whether `CLOSE_REQ` was sent.
    close_sent: bool,
}

/// What follows from a received packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect<C> {
    /// A connection is established.
    Established(C, i64),
    /// A dial has failed.
    Failed(C, DialError),
    /// Bytes for a connection.
    Data(C, i64, Bytes),
    /// Credit for a connection, in bytes.
    Window(C, i64, u64),
    /// Credit for a connection that does not exist. One that has just ended is not meant.
    UnknownWindow,
    /// A connection has ended, with the text of an error unless it ended orderly.
    Closed(C, String),
    /// The agent is about to stop.
    Draining,
    /// A packet is sent in answer.
    Answer(Packet),
    /// The packet is without effect.
    Ignored,
    /// The agent breaks the protocol in a way that must end the stream.
    Violation(&'static str),
}

impl<C: Clone> Connections<C> {
    /// Creates the table of a new stream, for at most `max` connections.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            dialling: BTreeMap::new(),
            open: BTreeMap::new(),
            closing: BTreeSet::new(),
            closing_until: VecDeque::new(),
            max,
            ended: false,
        }
    }

    /// Registers a dial under an id that `draw` returns.
    ///
    /// # Errors
    /// [`Reason::Busy`] at a limit, [`Reason::Lost`] after the stream's end.
    pub(crate) fn dial(&mut self, connection: C, mut draw: impl FnMut() -> i64) -> Result<i64, DialError> {
        if self.ended {
            return Err(DialError::new(Reason::Lost, "the agent's stream has ended"));
        }
        if self.dialling.len() >= MAX_DIALS || self.dialling.len() + self.open.len() >= self.max {
            return Err(DialError::new(Reason::Busy, "the agent has too many connections"));
        }
        loop {
            let random = draw();
            if random != 0 && !self.dialling.contains_key(&random) {
                self.dialling.insert(random, connection);
                return Ok(random);
            }
        }
    }

    /// Withdraws a dial. Returns the packet that says so, if the dial was not answered yet.
    pub(crate) fn withdraw(&mut self, random: i64) -> Option<Packet> {
        self.dialling.remove(&random).map(|_| packet::close_dial(random))
    }

    /// Closes the direction to the destination. Returns the packet that says so, unless that was done or the connection has ended.
    pub(crate) fn close_writing(&mut self, id: i64) -> Option<Packet> {
        let open = self.open.get_mut(&id)?;
        (!std::mem::replace(&mut open.close_sent, true)).then(|| packet::close(id))
    }

    /// Ends a connection that has no reader any more. Returns the packets to send: a second `CLOSE_REQ` asks the agent to send nothing more.
    pub(crate) fn close(&mut self, id: i64, now: Instant) -> Vec<Packet> {
        let Some(Open { close_sent, .. }) = self.open.remove(&id) else { return Vec::new() };
        self.expect_no_more(id, now);
        vec![packet::close(id); if close_sent { 1 } else { 2 }]
    }

    /// Ends all connections and returns them.
    pub(crate) fn end(&mut self) -> Vec<C> {
        self.ended = true;
        self.closing.clear();
        self.closing_until.clear();
        let open = std::mem::take(&mut self.open).into_values().map(|open| open.connection);
        std::mem::take(&mut self.dialling).into_values().chain(open).collect()
    }

    /// Handles a packet from the agent.
    pub(crate) fn receive(&mut self, received: Packet, now: Instant) -> Effect<C> {
        match packet::payload(received) {
            Some(Payload::DialResponse(response)) => self.dialled(response.random, response.connect_id, response.error),
            Some(Payload::CloseDial(closed)) => match self.dialling.remove(&closed.random) {
                Some(connection) => {
                    Effect::Failed(connection, DialError::new(Reason::Lost, "dial closed by the agent"))
                }
                None => Effect::Ignored,
            },
            Some(Payload::Data(data)) => self.data(data.connect_id, data.data, now),
            Some(Payload::CloseResponse(closed)) => {
                self.closing.remove(&closed.connect_id);
                match self.open.remove(&closed.connect_id) {
                    Some(Open { connection, .. }) => Effect::Closed(connection, closed.error),
                    None => Effect::Ignored,
                }
            }
            Some(Payload::Window(window)) => match self.open.get(&window.connect_id) {
                Some(open) => Effect::Window(open.connection.clone(), window.connect_id, window.bytes),
                None if self.closing.contains(&window.connect_id) => Effect::Ignored,
                None => Effect::UnknownWindow,
            },
            Some(Payload::Drain(_)) => Effect::Draining,
            // An agent neither dials nor asks to close. Unknown types come from newer agents.
            Some(Payload::DialRequest(_) | Payload::CloseRequest(_)) | None => Effect::Ignored,
        }
    }

    /// The numbers of dials and of open connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.dialling.len(), self.open.len())
    }

    fn dialled(&mut self, random: i64, id: i64, error: String) -> Effect<C> {
        let Some(connection) = self.dialling.remove(&random) else {
            // Withdrawn, or never asked for: a connection without an owner must not stay open.
            return if id == 0 || self.is_known(id) { Effect::Ignored } else { Effect::Answer(packet::close(id)) };
        };
        let failed = |reason, text: &str| Effect::Failed(connection.clone(), DialError::new(reason, text));
        if !error.is_empty() {
            return failed(Reason::Destination, &error);
        }
        if id == 0 || self.is_known(id) {
            return failed(Reason::Lost, "the agent answered with an invalid connection id");
        }
        self.open.insert(id, Open { connection: connection.clone(), close_sent: false });
        Effect::Established(connection, id)
    }

    fn data(&mut self, id: i64, data: Bytes, now: Instant) -> Effect<C> {
        if let Some(open) = self.open.get(&id) {
            return Effect::Data(open.connection.clone(), id, data);
        }
        if id == 0 || self.closing.contains(&id) {
            return Effect::Ignored;
        }
        if self.closing_until.len() >= MAX_CLOSING {
            return Effect::Violation("data for too many unknown connections");
        }
        // Data for a connection that is unknown, or was forgotten after its time: the agent is asked once to close it.
        self.expect_no_more(id, now);
        Effect::Answer(packet::close(id))
    }

    fn is_known(&self, id: i64) -> bool {
        self.open.contains_key(&id) || self.closing.contains(&id)
    }

    fn expect_no_more(&mut self, id: i64, now: Instant) {
        // Each insertion removes what is over, so that lost answers cost memory for a bounded time only.
        while let Some((until, oldest)) = self.closing_until.front() {
            if *until > now && self.closing.contains(oldest) {
                break;
            }
            self.closing.remove(oldest);
            self.closing_until.pop_front();
        }
        self.closing.insert(id);
        self.closing_until.push_back((now + 2 * CLOSE_TIMEOUT, id));
    }
}

#[cfg(test)]
mod tests;
