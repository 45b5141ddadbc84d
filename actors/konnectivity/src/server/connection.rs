//! A connection that a server has opened for a frontend, whichever server has the agent.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use oarlock_streams::BoxIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::stream::TunnelStream;
use crate::limits::MAX_DATA;
use crate::metrics::{Counted, FAMILIES};

/// The id of a forwarded connection on a frontend's stream, which has no other connection.
const FORWARDED_ID: i64 = 1;
/// Free space below which a new buffer is taken for the next read.
const MIN_READ: usize = 4 << 10;

/// A connection to a destination behind an agent.
///
/// `shutdown` closes the direction to the destination, dropping the connection closes both. Reads and writes fail with [`io::ErrorKind::ConnectionReset`] once the
/// connection is broken.
#[derive(Debug)]
pub enum Connection {
    /// Through an agent of this server.
    Own(TunnelStream),
    /// Through an agent of another server.
    Forwarded(Forwarded),
}

/// A connection through another server.
pub struct Forwarded {
    io: BoxIo,
    buffer: BytesMut,
    _counted: Counted,
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

impl Forwarded {
    /// Counts a connection to another server, which carries the bytes of one destination.
    pub(super) fn new(io: BoxIo) -> Self {
        Self { io, buffer: BytesMut::new(), _counted: Counted::new(&FAMILIES.forwarded) }
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.buffer.capacity() < MIN_READ {
            self.buffer.reserve(MAX_DATA);
        }
        let read = ready!(poll_read_buf(Pin::new(&mut self.io), context, &mut self.buffer));
        Poll::Ready(match read {
            Ok(0) => None,
            Ok(_) => Some(Ok(self.buffer.split().freeze())),
            Err(error) => Some(Err(broken(error))),
        })
    }
}

/// The error of a connection that another server has broken off. Over TLS a missing end says so.
fn broken(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, format!("the connection through another tunnel server: {error}"))
}

impl Connection {
    /// The connection's id on a frontend's stream. Never 0.
    pub(crate) const fn connect_id(&self) -> i64 {
        match self {
            Self::Own(stream) => stream.connect_id(),
            Self::Forwarded(_) => FORWARDED_ID,
        }
    }

    /// Returns a future that waits until the connection breaks. A forwarded one is found broken by a read or a write only.
    pub(crate) fn broken(&self) -> impl Future<Output = io::Error> + Send + use<> {
        let inbound = match self {
            Self::Own(stream) => Some(stream.inbound()),
            Self::Forwarded(_) => None,
        };
        async move {
            match inbound {
                Some(inbound) => poll_fn(|context| inbound.poll_broken(context)).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for received bytes; `None` after the last ones. Not to be mixed with reads.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Own(stream) => stream.poll_chunk(context),
            Self::Forwarded(forwarded) => forwarded.poll_chunk(context),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Forwarded(forwarded) => Pin::new(&mut forwarded.io).poll_read(context, buffer).map_err(broken),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Own(stream) => Pin::new(stream).poll_write(context, data),
            Self::Forwarded(forwarded) => Pin::new(&mut forwarded.io).poll_write(context, data).map_err(broken),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(stream) => Pin::new(stream).poll_flush(context),
            Self::Forwarded(forwarded) => Pin::new(&mut forwarded.io).poll_flush(context).map_err(broken),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Own(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Forwarded(forwarded) => Pin::new(&mut forwarded.io).poll_shutdown(context).map_err(broken),
        }
    }
}
