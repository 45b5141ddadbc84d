//! The errors of spawning actors and of sending messages to them.

use crate::kind;

/// The error of an actor's functions: any error. The actor's status keeps its whole chain of sources as text.
pub type Failure = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A message was not delivered, or its answer was not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The mailbox was full: at the call for `try_send`, until the deadline for the others. Nothing was delivered.
    #[error("mailbox is full")]
    Overloaded,
    /// The actor has ended, or had no incarnation until the deadline; or, for an ask, the incarnation ended or dropped the reply before answering. An
    /// ask may have had its effect.
    #[error("actor is stopped")]
    Stopped,
    /// The deadline passed before the answer was received. The ask may have had its effect, or may still have it.
    #[error("no answer before the deadline")]
    Timeout,
}

/// An actor could not be spawned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The actor's kind breaks a rule.
    #[error(transparent)]
    Kind(#[from] kind::Error),
    /// An actor of this kind and key exists already.
    #[error("actor {0:?} lives already")]
    Duplicate(String),
    /// The phase of this kind has been shut down, or the parent has ended.
    #[error("actor {0:?} cannot start any more")]
    Closing(String),
    /// ractor refused to spawn the actor.
    #[error("actor {name:?} could not be spawned: {reason}")]
    Spawn {
        /// The actor, `kind/key`.
        name: String,
        /// ractor's error text.
        reason: String,
    },
}

/// Returns the message of a panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is no text".to_owned()
    }
}
