//! The [`ReplyChannel`] trait: carries the answer of one received ask back to its asker.

use async_trait::async_trait;
use bytes::Bytes;

use crate::credentials::Seed;
use crate::error::AnswerError;
use crate::role::Identity;

/// Reply channel of a received ask, made by the transport that delivered the ask.
#[async_trait]
pub(crate) trait ReplyChannel: Send + Sync + std::fmt::Debug {
    /// Sends the answer; waits for room on the connection.
    async fn send(&self, payload: Bytes) -> Result<(), AnswerError>;

    /// Returns the payload limit, in bytes.
    fn max_payload(&self) -> usize;

    /// Returns the key that proves this member's role, where answers are proven by signatures.
    fn seed(&self) -> Option<&Seed>;

    /// Whether the answer would go to that member.
    fn belongs_to(&self, who: &Identity) -> bool;
}
