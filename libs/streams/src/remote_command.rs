//! The protocols of exec and attach (upstream `k8s.io/apimachinery/pkg/util/remotecommand`).
//!
//! Over SPDY every stream of a command is a stream of the connection, named by its header `streamtype`; over WebSocket every stream is a channel, named by the
//! first byte of each message. The protocol versions differ in the information that they carry:
//!
//! | protocol | end of stdin | size of the terminal | the command's end |
//! |---|---|---|---|
//! | `channel.k8s.io` (v1), v2 | SPDY only | | a text, when it failed |
//! | v3 | SPDY only | yes | a text, when it failed |
//! | v4 | SPDY only | yes | a `Status` |
//! | v5 | yes | yes | a `Status` |

mod outcome;
mod protocol;
mod translate;

pub use outcome::{exit, failure};
pub use protocol::Protocol;
pub use translate::{refuse, translate};

/// The header of a SPDY upgrade with which both sides name the protocol.
pub const PROTOCOL_HEADER: &str = "x-stream-protocol-version";
/// The header that names the type of a SPDY stream.
pub const STREAM_TYPE: &str = "streamtype";

/// Names of the protocols, most preferred first.
pub const PROTOCOLS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// The most preferred protocol, and the only one that signals the end of stdin over WebSocket.
pub const V5: &str = "v5.channel.k8s.io";

/// Channel numbers of WebSocket messages.
pub mod channel {
    /// The command's standard input.
    pub const STDIN: u8 = 0;
    /// The command's standard output.
    pub const STDOUT: u8 = 1;
    /// The command's standard error.
    pub const STDERR: u8 = 2;
    /// The command's result: a text or a `Status`.
    pub const ERROR: u8 = 3;
    /// Changes of the terminal's size.
    pub const RESIZE: u8 = 4;
    /// Control channel: the next byte names a channel that carries no further data.
    pub const CLOSE: u8 = 255;
}

/// The streams of a command that are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Whether standard input is connected.
    pub stdin: bool,
    /// Whether standard output is connected.
    pub stdout: bool,
    /// Whether standard error is connected. A command at a terminal has none.
    pub stderr: bool,
    /// Whether the command runs at a terminal.
    pub tty: bool,
}
