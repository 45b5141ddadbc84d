//! The [`Transport`] trait: carries bytes to subjects for the bus.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use crate::error::{AskError, HintError};
use crate::link::Link;
use crate::queue::Queue;
use crate::role::Role;
use crate::subject::{Pattern, Subject};

/// Default payload limit in bytes: nats-server's.
pub(crate) const DEFAULT_MAX_PAYLOAD: usize = 1024 * 1024;

/// How answers of a role are proven.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'a> {
    /// By process: asker and answerer are in the same process, so no signature is needed.
    Process,
    /// A signature made with the private half of this key.
    Key(&'a str),
    /// Not at all: the role's key is unknown.
    None,
}

/// A subscription, removed when dropped.
pub(crate) trait Subscription: Send + Sync + std::fmt::Debug {}

/// Carries encoded messages between the members of a bus.
#[async_trait]
pub(crate) trait Transport: Send + Sync + std::fmt::Debug {
    /// Sends an ask and waits for the first answer until the deadline.
    async fn request(&self, subject: &Subject, payload: Bytes, deadline: Instant) -> Result<Bytes, AskError>;

    /// Sends a message at once or fails.
    fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), HintError>;

    /// Delivers the messages of the pattern to the queue, over this connection and every later one. On return the server knows the subscription, if there is a connection.
    async fn subscribe(&self, pattern: &Pattern, queue: Arc<Queue>) -> Box<dyn Subscription>;

    /// Returns when the server has received all earlier messages, or when there is no connection.
    async fn flush(&self);

    fn link(&self) -> &Link;

    /// Returns the payload limit, in bytes.
    fn max_payload(&self) -> usize;

    /// Returns how answers of a role are proven.
    fn proof_of(&self, role: Role) -> Proof<'_>;

    /// Returns a number that is unique within the process, and the number of the process.
    fn number(&self) -> (u64, u64);
}
