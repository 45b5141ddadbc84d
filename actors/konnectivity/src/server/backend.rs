//! One agent's stream at the server: the table of its connections with the stream's sending half.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oarlock_contracts::konnectivity::Packet;
use oarlock_runtime::{Instant, clock, rng};
use parking_lot::Mutex;

use super::connections::{Connections, Effect};
use super::identifiers::Identifiers;
use super::strategy::Candidate;
use crate::error::{DialError, Reason, Refused};
use crate::inbound::{Flow, Inbound};
use crate::limits::Limits;
use crate::link::Link;
use crate::metrics::{Counted, FAMILIES};
use crate::packet;
use crate::window::Windows;

/// One agent's stream.
#[derive(Debug)]
pub(crate) struct Backend {
    agent: String,
    identifiers: Identifiers,
    draining: AtomicBool,
    connections: Mutex<Connections<Arc<Inbound>>>,
    link: Link,
    limits: Limits,
    /// Flow control; absent if a side has not offered it.
    windows: Option<Windows>,
    _counted: Counted,
}

impl Backend {
    pub(super) fn new(
        agent: String,
        identifiers: Identifiers,
        link: Link,
        limits: Limits,
        windows: Option<Windows>,
    ) -> Arc<Self> {
        let connections = Mutex::new(Connections::new(limits.connections));
        let counted = Counted::new(&FAMILIES.backends);
        let draining = AtomicBool::new(false);
        Arc::new(Self { agent, identifiers, draining, connections, link, limits, windows, _counted: counted })
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// The numbers of dials and of open connections.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.connections.lock().counts()
    }

    /// Dials an address. Returns the new connection's queue and its id. When the future is dropped, the dial is withdrawn.
    pub(super) async fn dial(&self, address: &str, deadline: Instant) -> Result<(Arc<Inbound>, i64), DialError> {
        let _pending = Counted::new(&FAMILIES.pending_dials);
        let flow = self.windows.map(|windows| Flow::new(windows, &self.link));
        let inbound = Inbound::new(self.limits.buffer, flow, &FAMILIES.server_buffered);
        let random = self.connections.lock().dial(Arc::clone(&inbound), || rng::u64().cast_signed() & i64::MAX)?;
        let dial = Dial { backend: self, random, inbound: &inbound };
        let answer = async {
            let lost = |_| DialError::new(Reason::Lost, "the agent's stream has ended");
            self.link.prompt(packet::dial(random, address)).await.map_err(lost)?;
            poll_fn(|context| inbound.poll_open(context)).await
        };
        let timeout = |_| DialError::new(Reason::Timeout, format!("agent {} did not answer in time", self.agent));
        let id = clock::timeout_at(deadline, answer).await.map_err(timeout)??;
        std::mem::forget(dial);
        Ok((inbound, id))
    }

    /// Handles a packet from the agent, without waiting.
    ///
    /// # Errors
    /// A breach of the protocol that must end the stream.
    pub(super) fn receive(&self, received: Packet) -> Result<(), &'static str> {
        let effect = self.connections.lock().receive(received, clock::now());
        self.apply(effect)
    }

    fn apply(&self, effect: Effect<Arc<Inbound>>) -> Result<(), &'static str> {
        match effect {
            Effect::Established(inbound, id) => {
                if !inbound.open(id) {
                    self.close(id);
                }
            }
            Effect::Failed(inbound, error) => inbound.fail(error),
            Effect::Data(inbound, id, data) => self.check(id, inbound.push(data)),
            Effect::Window(inbound, id, bytes) => self.check(id, inbound.grant(bytes)),
            Effect::UnknownWindow => {
                FAMILIES.server_flow.unknown.inc();
            }
            Effect::Closed(inbound, error) => inbound.end((!error.is_empty()).then_some(&error)),
            Effect::Draining => self.draining.store(true, Ordering::Relaxed),
            Effect::Answer(answer) => self.link.control(answer),
            Effect::Ignored => {}
            Effect::Violation(text) => return Err(text),
        }
        Ok(())
    }

    /// Ends a connection that a packet of the agent has broken.
    fn check(&self, id: i64, accepted: Result<(), Refused>) {
        let Err(refused) = accepted else { return };
        tracing::warn!(agent = self.agent, connection = id, "{refused}");
        FAMILIES.server_flow.refused(refused);
        self.abort(id);
    }

    /// Ends the stream and all its connections.
    pub(super) fn end(&self, reason: &str) {
        let ended = self.connections.lock().end();
        self.link.end();
        for inbound in ended {
            inbound.end(Some(reason));
        }
    }

    /// Closes the direction of a connection to the destination: returns the packet that must follow the connection's data.
    pub(super) fn close_writing(&self, id: i64) -> Option<Packet> {
        self.connections.lock().close_writing(id)
    }

    /// Ends a connection that is not used any more; what was written is still sent.
    pub(super) fn close(&self, id: i64) {
        let closes = self.connections.lock().close(id, clock::now());
        for close in closes {
            self.link.send_or_overtake(close);
        }
    }

    /// Ends a connection at once.
    fn abort(&self, id: i64) {
        let closes = self.connections.lock().close(id, clock::now());
        for close in closes {
            self.link.control(close);
        }
    }
}

impl Candidate for Arc<Backend> {
    fn agent(&self) -> &str {
        &self.agent
    }

    fn identifiers(&self) -> &Identifiers {
        &self.identifiers
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// A dial whose caller has not got the connection yet.
struct Dial<'a> {
    backend: &'a Backend,
    random: i64,
    inbound: &'a Inbound,
}

impl Drop for Dial<'_> {
    fn drop(&mut self) {
        let withdrawn = self.backend.connections.lock().withdraw(self.random);
        if let Some(close) = withdrawn {
            self.backend.link.control(close);
        } else if let Some(id) = self.inbound.give_up() {
            // Established, but the caller has left before it could know.
            self.backend.close(id);
        }
    }
}

#[cfg(test)]
mod tests;
