//! What a transport does for the bus: carry bytes to subjects.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use crate::credentials::Seed;
use crate::error::{AnswerError, AskError, HintError};
use crate::link::Link;
use crate::queue::Queue;
use crate::role::{Identity, Role};
use crate::subject::{Pattern, Subject};
use crate::{memory, nats};

/// How answers of a role are proven.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'a> {
    /// No proof is needed: asker and answerer are parts of the same process.
    Process,
    /// A signature made with the private half of this key.
    Key(&'a str),
    /// Not at all: the role's key is not known.
    None,
}

/// Undoes a subscription when it is dropped.
pub(crate) trait Subscription: Send + Sync + std::fmt::Debug {}

#[async_trait]
pub(crate) trait Transport: Send + Sync + std::fmt::Debug {
    /// Sends, and waits for the first answer until the deadline.
    async fn request(&self, subject: &Subject, payload: Bytes, deadline: Instant) -> Result<Bytes, AskError>;

    /// Sends now or never.
    fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), HintError>;

    /// Delivers what the pattern selects to the queue, over this connection and every later one. Returns when the server has it, if there
    /// is a connection.
    async fn subscribe(&self, pattern: &Pattern, queue: Arc<Queue>) -> Box<dyn Subscription>;

    /// Returns when the server has what was sent before, or there is no connection.
    async fn flush(&self);

    fn link(&self) -> &Link;

    /// Bytes that a message may have.
    fn max_payload(&self) -> usize;

    /// How answers of a role are proven.
    fn proof_of(&self, role: Role) -> Proof<'_>;

    /// A number that no other message of this process has, and the process's own.
    fn number(&self) -> (u64, u64);
}

/// The way back to an asker.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Memory(memory::ReplyTo),
    Nats(nats::ReplyTo),
}

impl ReplyTo {
    pub(crate) async fn send(&self, payload: Bytes) -> Result<(), AnswerError> {
        match self {
            Self::Memory(reply) => reply.send(payload),
            Self::Nats(reply) => reply.send(payload).await,
        }
    }

    pub(crate) fn max_payload(&self) -> usize {
        match self {
            Self::Memory(_) => memory::MAX_PAYLOAD,
            Self::Nats(reply) => reply.max_payload(),
        }
    }

    /// The key that proves this member's role.
    pub(crate) fn seed(&self) -> Option<&Seed> {
        match self {
            Self::Memory(_) => None,
            Self::Nats(reply) => reply.seed(),
        }
    }

    /// Whether the answer would go to that member.
    pub(crate) fn belongs_to(&self, who: &Identity) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Nats(reply) => reply.belongs_to(who),
        }
    }
}
