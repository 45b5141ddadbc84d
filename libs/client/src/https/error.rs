//! Errors of a connection to a server. Their texts become the messages of a Status.

use oarlock_telemetry::logs::chain;
use std::io;
use std::path::PathBuf;

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The pool is empty.
    #[error("no server")]
    NoServer,
    /// The call's time passed while connections were made.
    #[error("connect to {0}: timed out")]
    Deadline(String),
    /// The server failed a moment ago.
    #[error("{0} is left alone for a while")]
    Paused(String),
    /// The server cannot be reached, or does not speak the protocol.
    #[error("connect to {server}: {cause}")]
    Handshake {
        /// The server.
        server: String,
        /// The step that failed.
        #[source]
        cause: HandshakeError,
    },
    /// The server does not report readiness.
    #[error("{server} {cause}")]
    NotReady {
        /// The server.
        server: String,
        /// What the server did instead.
        #[source]
        cause: ReadinessError,
    },
}

/// The step of making a connection that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// TCP or TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server chose another protocol.
    #[error("the server does not speak HTTP/2")]
    NotHttp2,
    /// HTTP/2.
    #[error("{}", chain(.0))]
    Http2(#[from] hyper::Error),
    /// The deadline passed.
    #[error("timed out")]
    TimedOut,
}

/// Why a server does not count as ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadinessError {
    /// The server answered `/readyz` with an error.
    #[error("is not ready")]
    Refused,
    /// The connection broke.
    #[error("went away")]
    Lost,
    /// The deadline passed.
    #[error("does not say whether it is ready")]
    Silent,
    /// The server's path prefix is invalid.
    #[error("cannot be asked: {0}")]
    Request(#[from] RequestError),
}

/// Why a request cannot be composed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The path and query are no URI.
    #[error("the request has no valid path: {0}")]
    Path(#[from] http::Error),
    /// The bearer token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Why a file has no bearer token.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// The file cannot be read.
    #[error("token file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content is not valid in a header.
    #[error("token file {} is malformed", .0.display())]
    Malformed(PathBuf),
}

/// Why the body of an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The body is longer than the limit.
    #[error("the answer is too long")]
    TooLong,
    /// The stream broke.
    #[error("{}", chain(.0))]
    Broken(#[from] hyper::Error),
}
