//! What can become of a message.

use std::time::Duration;

use oarlock_meta::Revision;

use crate::name::BadName;
use crate::proto::bus::v1::FailureCode;

/// An ask was not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody hears the subject. Certainly not delivered.
    #[error("nobody is there")]
    NobodyThere,
    /// The receiver has too much under way. Not begun.
    #[error("overloaded; again after {retry_after:?}")]
    Overloaded {
        /// After which time another try may find room.
        retry_after: Duration,
    },
    /// The receiver does not hold the unit at that epoch. Not begun.
    #[error("wrong epoch{}", current.map(|epoch| format!("; the unit's is {epoch}")).unwrap_or_default())]
    WrongEpoch {
        /// The unit's epoch, if the receiver knows it.
        current: Option<Revision>,
    },
    /// The time was over before anybody began.
    #[error("expired before anybody began")]
    Expired,
    /// The receiver ends. Not begun.
    #[error("the receiver is stopping")]
    Stopping,
    /// No answer within the budget. It may have been done, or may still be.
    #[error("no answer within the budget")]
    Timeout,
    /// The connection broke before the answer came. It may have been done, or may still be.
    #[error("the connection was lost before the answer came")]
    Lost,
    /// There is no connection. Not sent, and not kept for later.
    #[error("not connected")]
    Disconnected,
    /// The sender may not publish there. Not delivered.
    #[error("{0} may not be published by this member")]
    Denied(String),
    /// The message is larger than the bus carries. Not sent.
    #[error("{bytes} bytes are more than a message may have ({limit})")]
    TooLarge {
        /// The message's size.
        bytes: usize,
        /// What the server takes.
        limit: usize,
    },
    /// The receiver refused it, or failed.
    #[error("{message}")]
    Failed {
        /// The sort of failure; it says whether anything was begun.
        code: FailureCode,
        /// For people.
        message: String,
    },
    /// An answer came without a valid proof that a member of the role made it, or the role's key is not known here. What was asked for may have been done.
    #[error("unproven: {0}")]
    Unproven(String),
    /// An answer came that cannot be read. It was done.
    #[error("the answer cannot be read: {0}")]
    Garbled(String),
}

impl AskError {
    /// Whether nothing was begun for certain, so that asking again does nothing twice.
    #[must_use]
    pub const fn certainly_not_begun(&self) -> bool {
        match self {
            Self::NobodyThere
            | Self::Overloaded { .. }
            | Self::WrongEpoch { .. }
            | Self::Expired
            | Self::Stopping
            | Self::Disconnected
            | Self::Denied(_)
            | Self::TooLarge { .. } => true,
            Self::Failed { code, .. } => matches!(code, FailureCode::Malformed | FailureCode::UnknownMethod),
            Self::Timeout | Self::Lost | Self::Unproven(_) | Self::Garbled(_) => false,
        }
    }
}

/// A hint was certainly not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// There is no connection.
    #[error("not connected")]
    Disconnected,
    /// What is to be sent waits already in such numbers that this was let go.
    #[error("too much waits to be sent")]
    Full,
    /// The sender may not publish there.
    #[error("{0} may not be published by this member")]
    Denied(String),
    /// The message is larger than the bus carries.
    #[error("{bytes} bytes are more than a message may have ({limit})")]
    TooLarge {
        /// The message's size.
        bytes: usize,
        /// What the server takes.
        limit: usize,
    },
}

/// Nobody can hear there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The table does not let this member hear the pattern.
    #[error("{0} may not be heard by this member")]
    Denied(String),
    /// The row carries hints where asks are to be served, or the other way round.
    #[error("{0} carries something else")]
    OtherSort(String),
    /// The name cannot be part of a subject.
    #[error(transparent)]
    Name(#[from] BadName),
}

/// An answer did not leave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The asker's time is over, or the connection is not the one over which it asked.
    #[error("nobody waits for the answer any more")]
    Gone,
    /// The answer is larger than the bus carries; the asker was told so.
    #[error("an answer of {bytes} bytes is more than a message may have ({limit})")]
    TooLarge {
        /// The answer's size.
        bytes: usize,
        /// What the server takes.
        limit: usize,
    },
}
