//! SPDY/3.1 (the SPDY draft 3.1; `moby/spdystream` is what the other side runs).
//!
//! Flow control: that peer neither sends nor looks at WINDOW_UPDATE, so whoever waited for a window to open would wait for ever after the
//! first 64 KiB. What bounds memory here is the connection itself: each stream holds a few pieces of data, and while one is full nothing more
//! is read ([`start`] says how much that is). Nobody may therefore leave a stream unread and wait for another one; a stream whose receiver is
//! dropped takes and forgets.

mod connection;
mod dictionary;
mod frame;
mod headers;
mod stream;

pub use connection::{Connection, Role, start};
pub use stream::{Receiver, Sender, Stream};

/// What `Upgrade` says.
pub const UPGRADE: &str = "SPDY/3.1";

/// Headers of a stream: names in lower case, values as they are.
pub type Headers = Vec<(String, String)>;

/// What ends a connection or a stream.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no SPDY/3.1.
    #[error("spdy: {0}")]
    Protocol(&'static str),
    /// The connection broke.
    #[error("spdy: {0}")]
    Io(#[from] std::io::Error),
    /// The connection is over, or the peer refused the stream.
    #[error("spdy: the connection is closed")]
    Closed,
    /// The peer did not answer in time.
    #[error("spdy: no answer in time")]
    Late,
}
