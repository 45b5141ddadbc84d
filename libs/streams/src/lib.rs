//! Streams of users to containers, as Kubernetes carries them.
//!
//! * [`spdy`]: SPDY/3.1 as far as its one remaining user needs it: many byte streams over one upgraded HTTP connection.
//! * [`upgrade`]: upgraded HTTP/1.1 connections: who asks for one, how one is asked for, how two are joined.
//! * [`websocket`]: the server's side of WebSocket, a tunnel of bytes through it (KEP-4006, port-forward), and streams for clients that only
//!   listen (logs).
//! * [`remote_command`]: the protocols of exec and attach, and the translation of WebSocket `v5.channel.k8s.io` to SPDY (KEP-4006).
//!
//! Everything here is a future that its caller runs and drops: nothing is spawned, nothing outlives it, and no buffer grows with what a
//! peer sends or another is slow to take.

pub mod remote_command;
pub mod spdy;
pub mod upgrade;
pub mod websocket;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection, whatever carries it.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// A boxed [`Io`].
pub type BoxIo = Box<dyn Io>;

/// When one direction of a connection is over, what still comes in the other one is carried for so long. Who hangs up over unread bytes resets
/// the connection, and what it said last is lost: a command that leaves its input unread would end without its exit code.
pub(crate) const LINGER: std::time::Duration = std::time::Duration::from_secs(10);

/// At most so many bytes are carried in one piece.
pub(crate) const CHUNK: usize = 32 << 10;
