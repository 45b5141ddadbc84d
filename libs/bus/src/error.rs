//! Errors of asks, hints, listeners and answers.

use std::time::Duration;

use oarlock_meta::Revision;

use crate::name::BadName;
use crate::proto::bus::v1::FailureCode;
use crate::role::Identity;
use crate::subject::Subject;

/// Why a received message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The message came on a subject that is none of this project's.
    #[error("no subject: {0}")]
    Subject(String),
    /// The bytes are no envelope.
    #[error("no envelope: {0}")]
    Undecodable(#[source] prost::DecodeError),
    /// The envelope has a version that this program does not read.
    #[error("envelope of version {found}; this is {own}")]
    Version {
        /// Version of the envelope.
        found: u32,
        /// Version that this program reads.
        own: u32,
    },
    /// The sender names a role that does not exist.
    #[error("no role: {0:?}")]
    Role(String),
    /// The sender's name is no name on the bus.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The envelope names another sender than the subject, whose publishers the bus verifies.
    #[error("{sender} speaks as somebody else on {subject}")]
    Impostor {
        /// Sender that the envelope names.
        sender: Identity,
        /// Subject of the message.
        subject: Subject,
    },
    /// The body is a message of another type than its reader expects.
    #[error("a {found:?} where a {wanted:?} belongs")]
    OtherType {
        /// Full name of the body's type.
        found: String,
        /// Full name of the expected type.
        wanted: String,
    },
    /// The body is no message of its type.
    #[error("{type_name}: {source}")]
    Body {
        /// Full name of the body's type.
        type_name: String,
        /// What is wrong with the body.
        source: prost::DecodeError,
    },
}

/// Why an ask was not answered as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No listener is subscribed to the subject. Certainly not delivered.
    #[error("nobody is there")]
    NobodyThere,
    /// The receiver has too many asks in progress. The work was not begun.
    #[error("overloaded; again after {retry_after:?}")]
    Overloaded {
        /// Time after which another attempt may succeed.
        retry_after: Duration,
    },
    /// The receiver does not hold the unit at that epoch. The work was not begun.
    #[error("wrong epoch{}", current.map(|epoch| format!("; the unit's is {epoch}")).unwrap_or_default())]
    WrongEpoch {
        /// The unit's epoch, if the receiver knows it.
        current: Option<Revision>,
    },
    /// The deadline passed before the work began.
    #[error("expired before anybody began")]
    Expired,
    /// The receiver is shutting down. The work was not begun.
    #[error("the receiver is stopping")]
    Stopping,
    /// No answer arrived within the budget. The work may have been done, or may still be.
    #[error("no answer within the budget")]
    Timeout,
    /// The connection broke before the answer arrived. The work may have been done, or may still be.
    #[error("the connection was lost before the answer came")]
    Lost,
    /// The bus is not connected. The ask was neither sent nor queued.
    #[error("not connected")]
    Disconnected,
    /// The sender may not publish to the subject. Not delivered.
    #[error("{0} may not be published by this member")]
    Denied(String),
    /// The message exceeds the bus's size limit. Not sent.
    #[error("{bytes} bytes are more than a message may have ({limit})")]
    TooLarge {
        /// Size of the message, in bytes.
        bytes: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// The receiver refused the ask or failed.
    #[error("{message}")]
    Failed {
        /// Kind of failure, which says whether work was begun.
        code: FailureCode,
        /// Message for humans.
        message: String,
    },
    /// The answer has no valid proof that a member of the role made it, or the role's key is not known here. The work may have been done.
    #[error("unproven: {0}")]
    Unproven(String),
    /// The answer cannot be decoded. The work was done.
    #[error("the answer cannot be read: {0}")]
    Garbled(String),
}

impl AskError {
    /// Whether the work was certainly not begun, so that a repeated ask cannot do it twice.
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

/// Why a hint was certainly not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// The bus is not connected.
    #[error("not connected")]
    Disconnected,
    /// The send queue is full; the hint was dropped.
    #[error("too much waits to be sent")]
    Full,
    /// The sender may not publish to the subject.
    #[error("{0} may not be published by this member")]
    Denied(String),
    /// The message exceeds the bus's size limit.
    #[error("{bytes} bytes are more than a message may have ({limit})")]
    TooLarge {
        /// Size of the message, in bytes.
        bytes: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
}

/// Why a member cannot listen to a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The table does not let this member listen to the pattern.
    #[error("{0} may not be heard by this member")]
    Denied(String),
    /// The pattern carries hints where asks are to be served, or the reverse.
    #[error("{0} carries something else")]
    OtherSort(String),
    /// The name cannot be part of a subject.
    #[error(transparent)]
    Name(#[from] BadName),
}

/// Why an answer was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The asker's deadline has passed, or the connection that carried the ask is closed.
    #[error("nobody waits for the answer any more")]
    Gone,
    /// The answer exceeds the bus's size limit; the asker got an error instead.
    #[error("an answer of {bytes} bytes is more than a message may have ({limit})")]
    TooLarge {
        /// Size of the answer, in bytes.
        bytes: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
}
