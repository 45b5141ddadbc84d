//! User streams to containers (exec, attach, port-forward, logs) over the protocols that Kubernetes uses.
//!
//! * [`spdy`]: the part of SPDY/3.1 that Kubernetes uses: many byte streams over one upgraded HTTP connection.
//! * [`upgrade`]: upgraded HTTP/1.1 connections: recognizing and sending upgrade requests, and joining two upgraded connections.
//! * [`websocket`]: the server side of WebSocket, a tunnel of bytes through a WebSocket (KEP-4006, port-forward), and streams for clients that only
//!   receive (logs).
//! * [`remote_command`]: the protocols of exec and attach, and the translation of WebSocket `v5.channel.k8s.io` to SPDY (KEP-4006).
//!
//! Every function is a future that its caller runs and drops: the crate spawns nothing, nothing outlives the future, and no buffer grows with the data that a
//! peer sends or with the slowness of a receiver.

pub mod remote_command;
pub mod spdy;
pub mod upgrade;
pub mod websocket;

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte connection over any transport.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// A boxed [`Io`].
pub type BoxIo = Box<dyn Io>;

/// The time for which the open direction of a connection is carried after the other direction has ended. Closing a socket with unread bytes resets the connection
/// and loses the data last sent: a command that leaves its input unread would end without its exit code.
pub(crate) const LINGER: std::time::Duration = std::time::Duration::from_secs(10);

/// The most bytes that are carried in one piece.
pub(crate) const MAX_CHUNK: usize = 32 << 10;
