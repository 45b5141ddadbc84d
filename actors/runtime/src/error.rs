//! What can go wrong between actors.

use crate::kind;

/// What an actor's functions fail with: any error; its whole chain of sources is kept as text in the actor's status.
pub type Failure = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A message did not get there, or its answer did not get back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The mailbox is full: at once for `try_send`, until the deadline for the others. Nothing was delivered.
    #[error("mailbox is full")]
    Overloaded,
    /// The actor has ended, or had no incarnation until the deadline, or (for an ask) the incarnation ended, or let go
    /// of the reply, before it answered. An ask may have had its effect.
    #[error("actor is stopped")]
    Stopped,
    /// The deadline passed before the answer came. The ask may have, or may still get, its effect.
    #[error("no answer before the deadline")]
    Timeout,
}

/// An actor could not be spawned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The actor's row breaks a rule.
    #[error(transparent)]
    Kind(#[from] kind::Error),
    /// An actor of this kind and key lives already.
    #[error("actor {0:?} lives already")]
    Duplicate(String),
    /// The phase of this kind has been shut down, or the parent has ended.
    #[error("actor {0:?} cannot start any more")]
    Closing(String),
    /// The framework below refused.
    #[error("actor {name:?} could not be spawned: {reason}")]
    Spawn {
        /// The actor, `kind/key`.
        name: String,
        /// The framework's words.
        reason: String,
    },
}

/// An error with all its sources, outermost first.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is no text".to_owned()
    }
}
