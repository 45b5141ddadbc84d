//! Why a connection through a tunnel cannot be established, or breaks.

/// The class of a [`DialError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No agent is connected that may dial the address.
    NoAgent,
    /// The destination refused, or the agent cannot reach it.
    Destination,
    /// The deadline passed without an answer.
    Timeout,
    /// The agent or the server was lost, or broke the protocol, before the answer.
    Lost,
    /// The stream has as many connections as [`Limits::connections`](crate::Limits::connections).
    Busy,
    /// The request is invalid.
    Invalid,
    /// There is no connection to the tunnel server.
    Unreachable,
}

/// A connection that cannot be established.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DialError {
    reason: Reason,
    text: String,
}

/// Why a packet of the peer breaks the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Without flow control: the queue is full.
    #[error("the receiver is too slow: the connection's buffer is full")]
    Full,
    /// With flow control: the peer had no credit for the packet.
    #[error("the other side sent more than the connection's window")]
    BeyondWindow,
    /// With flow control: the peer gave more credit than its window.
    #[error("the other side gave more credit than the connection's window")]
    ExcessCredit,
}

impl DialError {
    pub(crate) fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// The error of a client that gets no connection to the server.
    pub(crate) fn unreachable(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(Reason::Unreachable, oarlock_telemetry::logs::chain(error))
    }

    /// The error of a client that has no connection to the server at its deadline.
    pub(crate) fn no_connection_in_time() -> Self {
        Self::new(Reason::Unreachable, "i/o timeout")
    }

    /// The class of the error.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether another agent may succeed: nothing says that this one has reached the destination.
    pub(crate) const fn is_of_the_agent(&self) -> bool {
        matches!(self.reason, Reason::Timeout | Reason::Lost | Reason::Busy)
    }

    /// The code of the answer to an HTTP `CONNECT` (upstream's choice: 500 without an agent, 504 for timeouts, 502 for the destination).
    pub(crate) fn http_code(&self) -> u16 {
        match self.reason {
            Reason::NoAgent => 500,
            Reason::Timeout => 504,
            Reason::Destination if self.text.contains("timed out") || self.text.contains("timeout") => 504,
            Reason::Busy => 503,
            Reason::Invalid => 400,
            Reason::Destination | Reason::Lost | Reason::Unreachable => 502,
        }
    }
}

impl From<DialError> for std::io::Error {
    fn from(error: DialError) -> Self {
        use std::io::ErrorKind;
        let kind = match error.reason {
            Reason::NoAgent | Reason::Busy => ErrorKind::HostUnreachable,
            Reason::Destination => ErrorKind::ConnectionRefused,
            Reason::Timeout => ErrorKind::TimedOut,
            Reason::Lost => ErrorKind::ConnectionAborted,
            Reason::Invalid => ErrorKind::InvalidInput,
            Reason::Unreachable => ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
