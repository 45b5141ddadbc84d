//! SPDY/3.1 (the SPDY draft 3.1; the peers run `moby/spdystream`).
//!
//! Flow control: `moby/spdystream` neither sends nor reads WINDOW_UPDATE, so a sender that waited for the window to open would wait for ever after the first
//! 64 KiB. The connection itself bounds memory: each stream queues a few pieces of data, and while one stream's queue is full nothing more is read from the
//! connection ([`start`] states the bound). A caller must therefore never leave a stream unread while waiting for another one; a stream whose receiver is
//! dropped discards its data.

mod connection;
mod dictionary;
mod frame;
mod headers;
mod open_streams;
mod stream;

pub use connection::{Connection, Role, start};
pub use stream::{Receiver, Sender, Stream};

/// The value of the `Upgrade` header.
pub const UPGRADE: &str = "SPDY/3.1";

/// Headers of a stream: names in lower case, values unchanged.
pub type Headers = Vec<(String, String)>;

/// The error of a connection or a stream.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The received bytes violate SPDY/3.1.
    #[error("spdy: {0}")]
    Protocol(&'static str),
    /// Reading from or writing to the connection failed.
    #[error("spdy: {0}")]
    Io(#[from] std::io::Error),
    /// The connection has ended, or the peer refused the stream.
    #[error("spdy: the connection is closed")]
    Closed,
    /// The peer did not answer in time.
    #[error("spdy: no answer in time")]
    Late,
}
