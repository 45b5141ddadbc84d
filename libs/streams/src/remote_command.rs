//! The protocols of exec and attach (upstream `k8s.io/apimachinery/pkg/util/remotecommand`).
//!
//! Over SPDY every stream is a stream of the connection, named by its header `streamtype`; over WebSocket it is a channel, named by the first
//! byte of each message. Protocols differ in what they can say:
//!
//! | protocol | end of stdin | size of the terminal | the command's end |
//! |---|---|---|---|
//! | `channel.k8s.io` (v1), v2 | SPDY only | | a text, when it failed |
//! | v3 | SPDY only | yes | a text, when it failed |
//! | v4 | SPDY only | yes | a `Status` |
//! | v5 | yes | yes | a `Status` |

mod outcome;
mod translate;

pub use outcome::{exit, failure};
pub use translate::{Protocol, refuse, translate};

/// The header of a SPDY upgrade in which both sides name the protocol.
pub const PROTOCOL_HEADER: &str = "x-stream-protocol-version";
/// The header of a SPDY stream that names it.
pub const STREAM_TYPE: &str = "streamtype";

/// Protocols, best first.
pub const PROTOCOLS: [&str; 5] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// The first of them: the only one that says the end of stdin over WebSocket.
pub const V5: &str = "v5.channel.k8s.io";

/// Channels of WebSocket messages.
pub mod channel {
    /// To the command.
    pub const STDIN: u8 = 0;
    /// From it.
    pub const STDOUT: u8 = 1;
    /// From it.
    pub const STDERR: u8 = 2;
    /// How it ended.
    pub const ERROR: u8 = 3;
    /// Sizes of the terminal.
    pub const RESIZE: u8 = 4;
    /// The next byte is a channel on which nothing more comes.
    pub const CLOSE: u8 = 255;
}

/// Which streams of a command are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// What it reads.
    pub stdin: bool,
    /// What it writes.
    pub stdout: bool,
    /// What it writes to the other one; there is none at a terminal.
    pub stderr: bool,
    /// It runs at a terminal.
    pub tty: bool,
}
