//! The bounds of tunnels.

use std::time::Duration;

/// The longest time between a `CLOSE_REQ` and its `CLOSE_RSP` (upstream's client waits as long). With flow control it begins anew as long as bytes of the connection
/// move.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for which a peer may leave a packet unread; a session or connection that waits longer ends.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time for a frontend's dial, and until its new stream asks for one (upstream's client waits 30 s).
pub(crate) const FRONTEND_DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest packet that is accepted, in bytes (gRPC's default).
pub(crate) const MAX_PACKET: usize = 4 << 20;
/// The most bytes that are sent in one packet.
pub(crate) const MAX_DATA: usize = 32 << 10;

/// The bounds of the connections of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most unread bytes of one connection through a peer without flow control (upstream's). A connection that exceeds them is reset.
    pub buffer: usize,
    /// The most unread bytes of one connection through a peer with flow control, 4 KiB to 1 GiB: the peer waits when so many are unread. It bounds the throughput of
    /// one connection as well: a window for each round trip. `None` offers no flow control.
    pub window: Option<usize>,
    /// The most connections of one stream between agent and server, and the most that other servers have forwarded to one server.
    pub connections: usize,
    /// The time for a dial: at the server for the answer of one agent, at the agent for the destination.
    pub dial_timeout: Duration,
}

impl Limits {
    /// The bounds of a server: an agent has 10 s to answer, twice the time that an agent has to dial.
    pub const SERVER: Self =
        Self { buffer: 1 << 20, window: Some(512 << 10), connections: 16_384, dial_timeout: Duration::from_secs(10) };
    /// The bounds of an agent. The time to dial is upstream's.
    pub const AGENT: Self = Self { dial_timeout: Duration::from_secs(5), ..Self::SERVER };
}
