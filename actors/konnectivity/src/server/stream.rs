//! A connection through the tunnel, as the dialler's byte stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use oarlock_contracts::konnectivity::Packet;
use oarlock_runtime::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::StreamReader;
use tokio_util::sync::PollSender;

use super::backend::Backend;
use crate::error::DialError;
use crate::inbound::Inbound;
use crate::limits::{CLOSE_TIMEOUT, MAX_DATA};
use crate::link::Ended;
use crate::metrics::{Counted, FAMILIES};
use crate::packet;

/// How much longer than [`CLOSE_TIMEOUT`], which the agent keeps, a `CLOSE_RSP` may be on its way.
const CLOSE_MARGIN: Duration = Duration::from_secs(5);

/// A connection to a destination behind an agent.
///
/// `shutdown` closes the direction to the destination, what comes from there can be read until nothing has moved for [`CLOSE_TIMEOUT`]. Dropping the stream closes the
/// connection. Reads and writes fail with [`io::ErrorKind::ConnectionReset`] once the connection is broken: the agent or the destination was lost, or the agent knows
/// no flow control and the reader is so slow that the connection's buffer is full.
pub struct TunnelStream {
    backend: Arc<Backend>,
    inbound: Arc<Inbound>,
    id: i64,
    incoming: StreamReader<Incoming, Bytes>,
    sender: PollSender<Packet>,
    _counted: Counted,
}

/// The received bytes of a connection.
struct Incoming {
    inbound: Arc<Inbound>,
    /// Set by `shutdown`: ends the wait for `CLOSE_RSP`.
    closing: Option<BoxFuture<'static, ()>>,
}

impl Stream for Incoming {
    type Item = io::Result<Bytes>;

    /// Waits for received bytes; `None` after the last ones.
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let this = self.get_mut();
        if let Poll::Ready(next) = this.inbound.poll_next(context) {
            return Poll::Ready(next);
        }
        if let Some(closing) = &mut this.closing {
            ready!(closing.as_mut().poll(context));
            let text = "the other side did not confirm the close";
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, text))));
        }
        Poll::Pending
    }
}

impl TunnelStream {
    /// Dials an address by an agent. When the future is dropped, the dial is withdrawn.
    pub(super) async fn dial(backend: Arc<Backend>, address: &str, deadline: Instant) -> Result<Self, DialError> {
        let (inbound, id) = backend.dial(address, deadline).await?;
        let (sender, counted) = (PollSender::new(backend.link().sender()), Counted::new(&FAMILIES.established));
        let incoming = StreamReader::new(Incoming { inbound: Arc::clone(&inbound), closing: None });
        Ok(Self { backend, inbound, id, incoming, sender, _counted: counted })
    }

    /// The connection's id, which the agent chose. Never 0.
    pub(crate) const fn connect_id(&self) -> i64 {
        self.id
    }

    /// Returns the connection's queue, which can be asked whether the connection is broken.
    pub(crate) fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }

    /// Waits for received bytes; `None` after the last ones. Not to be mixed with reads.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Pin::new(self.incoming.get_mut()).poll_next(context)
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(ready!(self.sender.poll_reserve(context)).map_err(|_| Ended.into()))
    }

    fn put(&mut self, packet: Packet) -> io::Result<()> {
        self.sender.send_item(packet).map_err(|_| Ended.into())
    }
}

impl std::fmt::Debug for TunnelStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().incoming).poll_read(context, buffer)
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Before the end is looked for, so that an end between the two wakes this task.
        let credit = this.inbound.poll_credit(context);
        if let Some(error) = this.inbound.ended() {
            return Poll::Ready(Err(error));
        }
        if this.incoming.get_ref().closing.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Before the room in the queue, which all connections share and a connection without credit must not take.
        let most = ready!(credit).min(MAX_DATA);
        ready!(this.poll_room(context))?;
        let piece = data.get(..data.len().min(most)).unwrap_or_default();
        this.inbound.spend(piece.len());
        this.put(packet::data(this.id, Bytes::copy_from_slice(piece)))?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.incoming.get_ref().closing.is_some() || this.inbound.ended().is_some() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_room(context))?;
        // A connection that has ended meanwhile needs no packet; the reserved room is given back when the stream is dropped.
        if let Some(close) = this.backend.close_writing(this.id) {
            this.put(close)?;
        }
        let inbound = Arc::clone(&this.inbound);
        let quiet = async move { inbound.quiet(CLOSE_TIMEOUT + CLOSE_MARGIN).await };
        this.incoming.get_mut().closing = Some(Box::pin(quiet));
        Poll::Ready(Ok(()))
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        self.sender.close();
        self.backend.close(self.id);
    }
}
