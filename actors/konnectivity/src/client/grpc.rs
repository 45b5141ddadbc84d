//! gRPC to a server: one `Proxy` stream a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{Packet, ProxyService};
use oarlock_runtime::{Instant, clock, rng};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio_util::io::StreamReader;
use tokio_util::sync::PollSender;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use crate::error::{DialError, Reason};
use crate::limits::{CLOSE_TIMEOUT, MAX_DATA, MAX_PACKET};
use crate::link::{Ended, Link, ONE_CONNECTION, Outbound, link};
use crate::metrics::Segment;
use crate::packet;

/// Opens a stream and dials.
pub(super) async fn dial(endpoint: &Endpoint, address: &str, deadline: Instant) -> Result<GrpcStream, DialError> {
    let timeout = |_| DialError::new(Reason::Timeout, "the tunnel server did not answer in time");
    let channel =
        clock::timeout_at(deadline, endpoint.connect()).await.map_err(|_| DialError::no_connection_in_time())?;
    let channel = channel.map_err(|error| DialError::unreachable(&error))?;
    // Dropped at the deadline, the stream is reset, which withdraws the dial.
    clock::timeout_at(deadline, try_dial(channel, address)).await.map_err(timeout)?
}

async fn try_dial(channel: Channel, address: &str) -> Result<GrpcStream, DialError> {
    let lost = |error: &(dyn std::error::Error + 'static)| {
        DialError::new(Reason::Lost, format!("tunnel server: {}", oarlock_telemetry::logs::chain(error)))
    };
    let (link, outbound) = link(Segment::CLIENT_SENDS, ONE_CONNECTION);
    let (leave, left) = oneshot::channel();
    let outbound = Lingering { outbound, sent: false, left, leftover: None };
    let random = (rng::u64() >> 1).cast_signed();
    // Servers may answer the call only when the dial is answered.
    link.control(packet::dial(random, address));
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_PACKET);
    grpc.ready().await.map_err(|error| lost(&error))?;
    let path = PathAndQuery::from_static(ProxyService::PROXY.path());
    let answer = grpc.streaming(Request::new(outbound), path, ProstCodec::<Packet, Packet>::default()).await;
    let mut packets = answer.map_err(|status| lost(&status))?.into_inner();
    loop {
        let received = packets.message().await.map_err(|status| lost(&status))?;
        let received = received.ok_or_else(|| DialError::new(Reason::Lost, "the tunnel has ended"))?;
        Segment::CLIENT_RECEIVES.packet(&received);
        match packet::payload(received) {
            Some(Payload::DialResponse(response)) if response.random == random => {
                return match response.error.as_str() {
                    "" => {
                        let id = response.connect_id;
                        let received =
                            Leftover { packets, id, until: Box::pin(std::future::pending()), _channel: channel };
                        Ok(GrpcStream::new(link, received, leave))
                    }
                    error => Err(DialError::new(Reason::Destination, error)),
                };
            }
            Some(Payload::CloseDial(closed)) if closed.random == random => {
                return Err(DialError::new(Reason::Lost, "dial closed"));
            }
            _ => {}
        }
    }
}

/// A connection through a `Proxy` stream. The stream's own flow control bounds what waits.
pub(super) struct GrpcStream {
    link: Link,
    sender: PollSender<Packet>,
    incoming: StreamReader<Incoming, Bytes>,
    leave: Option<oneshot::Sender<Leftover>>,
    id: i64,
}

/// The received bytes of a connection.
struct Incoming {
    /// Present until the drop of the connection.
    received: Option<Leftover>,
    id: i64,
    /// Set by `shutdown`: ends the wait for `CLOSE_RSP`.
    closing: Option<BoxFuture<'static, ()>>,
    /// Set by `CLOSE_RSP`.
    closed: bool,
}

/// The receiving half of a stream.
struct Leftover {
    packets: Streaming<Packet>,
    id: i64,
    /// When the server must have ended the stream.
    until: BoxFuture<'static, ()>,
    /// Keeps the transport open.
    _channel: Channel,
}

/// The packets that a client sends. After the last one the stream stays open until the server has confirmed the close, because a stream whose client drops it is
/// reset, and servers may then lose what they have not read.
struct Lingering {
    outbound: Outbound,
    /// Whether the last packet has been sent.
    sent: bool,
    left: oneshot::Receiver<Leftover>,
    leftover: Option<Leftover>,
}

impl Stream for Lingering {
    type Item = Packet;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Packet>> {
        let this = self.get_mut();
        if !this.sent {
            match ready!(Pin::new(&mut this.outbound).poll_next(context)) {
                Some(packet) => return Poll::Ready(Some(packet)),
                None => this.sent = true,
            }
        }
        loop {
            let Some(leftover) = &mut this.leftover else {
                match ready!(Pin::new(&mut this.left).poll(context)) {
                    Ok(leftover) => this.leftover = Some(leftover),
                    // The dial has failed.
                    Err(_) => return Poll::Ready(None),
                }
                continue;
            };
            let Poll::Ready(received) = Pin::new(&mut leftover.packets).poll_next(context) else {
                return leftover.until.as_mut().poll(context).map(|()| None);
            };
            let Some(Ok(received)) = received else { return Poll::Ready(None) };
            Segment::CLIENT_RECEIVES.packet(&received);
            if matches!(packet::payload(received), Some(Payload::CloseResponse(closed)) if closed.connect_id == leftover.id)
            {
                return Poll::Ready(None);
            }
        }
    }
}

impl GrpcStream {
    fn new(link: Link, received: Leftover, leave: oneshot::Sender<Leftover>) -> Self {
        let (sender, id) = (PollSender::new(link.sender()), received.id);
        let incoming = StreamReader::new(Incoming { received: Some(received), id, closing: None, closed: false });
        Self { link, sender, incoming, leave: Some(leave), id }
    }

    /// Whether the direction to the destination is closed.
    fn writing_is_closed(&self) -> bool {
        let incoming = self.incoming.get_ref();
        incoming.closed || incoming.closing.is_some()
    }
}

impl Stream for Incoming {
    type Item = io::Result<Bytes>;

    /// Waits for received bytes; `None` after the last ones.
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let this = self.get_mut();
        let broken = |kind, text: String| Poll::Ready(Some(Err(io::Error::new(kind, text))));
        loop {
            let Some(Leftover { packets, .. }) = this.received.as_mut().filter(|_| !this.closed) else {
                return Poll::Ready(None);
            };
            let received = match Pin::new(packets).poll_next(context) {
                Poll::Ready(Some(Ok(received))) => received,
                Poll::Ready(Some(Err(status))) => {
                    return broken(io::ErrorKind::ConnectionAborted, status.message().to_owned());
                }
                Poll::Ready(None) => return broken(io::ErrorKind::ConnectionAborted, Ended.to_string()),
                Poll::Pending => match &mut this.closing {
                    Some(closing) => {
                        ready!(closing.as_mut().poll(context));
                        return broken(io::ErrorKind::TimedOut, "the other side did not confirm the close".to_owned());
                    }
                    None => return Poll::Pending,
                },
            };
            Segment::CLIENT_RECEIVES.packet(&received);
            match packet::payload(received) {
                Some(Payload::Data(data)) if data.connect_id == this.id && !data.data.is_empty() => {
                    if this.closing.is_some() {
                        // The rest may take a slow reader long.
                        this.closing = Some(close_timer());
                    }
                    return Poll::Ready(Some(Ok(data.data)));
                }
                Some(Payload::CloseResponse(closed)) if closed.connect_id == this.id => {
                    if !closed.error.is_empty() {
                        return broken(io::ErrorKind::ConnectionReset, closed.error);
                    }
                    this.closed = true;
                }
                _ => {}
            }
        }
    }
}

/// Completes when the server must have confirmed the close, or sent something of the rest.
fn close_timer() -> BoxFuture<'static, ()> {
    Box::pin(clock::sleep(2 * CLOSE_TIMEOUT))
}

impl AsyncRead for GrpcStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().incoming).poll_read(context, buffer)
    }
}

impl AsyncWrite for GrpcStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.writing_is_closed() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(this.sender.poll_reserve(context)).map_err(|_| Ended)?;
        let piece = data.get(..data.len().min(MAX_DATA)).unwrap_or_default();
        this.sender.send_item(packet::data(this.id, Bytes::copy_from_slice(piece))).map_err(|_| Ended)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.writing_is_closed() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.sender.poll_reserve(context)).map_err(|_| Ended)?;
        this.sender.send_item(packet::close(this.id)).map_err(|_| Ended)?;
        this.incoming.get_mut().closing = Some(close_timer());
        Poll::Ready(Ok(()))
    }
}

impl Drop for GrpcStream {
    fn drop(&mut self) {
        self.sender.abort_send();
        let incoming = self.incoming.get_mut();
        if incoming.closed {
            return;
        }
        // The second CLOSE_REQ says that nothing more is wanted.
        let closes = if incoming.closing.is_some() { 1 } else { 2 };
        for _ in 0..closes {
            self.link.send_or_overtake(packet::close(self.id));
        }
        if let (Some(mut received), Some(leave)) = (incoming.received.take(), self.leave.take()) {
            received.until = Box::pin(clock::sleep(CLOSE_TIMEOUT));
            // Refused when the transport has ended.
            drop(leave.send(received));
        }
    }
}
