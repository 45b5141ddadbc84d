//! The sending half of a packet stream: a bounded queue of data, and one of control packets.
//!
//! Whoever reads a packet stream must never wait for the sending half: two peers that both wait for each other would stop all connections. The reader therefore
//! sends answers as control packets, without waiting. A peer that leaves so many of them unread ends the session.
//!
//! Control packets overtake data. They end a connection at once, or begin one; the packet that ends a connection orderly follows its data. Credit for the peer
//! overtakes data, too: the data may wait for the very credit that the peer gives in return. Data never overtakes a control packet.

pub(crate) mod credits;
mod order;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use oarlock_contracts::konnectivity::Packet;
use oarlock_runtime::clock;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::limits::SEND_TIMEOUT;
use crate::metrics::Segment;
use crate::packet;
use credits::Credits;

/// The most data packets that wait to be sent on a stream of many connections; each has at most [`MAX_DATA`](crate::limits::MAX_DATA) bytes.
pub(crate) const MANY_CONNECTIONS: usize = 64;
/// The most data packets that wait to be sent on a stream of one connection, whose reader may be slow.
pub(crate) const ONE_CONNECTION: usize = 4;
/// The most control packets that wait to be sent.
const CONTROL_PACKETS: usize = 4096;

/// The packet stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tunnel has ended")]
pub(crate) struct Ended;

impl From<Ended> for std::io::Error {
    fn from(ended: Ended) -> Self {
        Self::new(std::io::ErrorKind::ConnectionAborted, ended)
    }
}

/// The senders of a packet stream. Clones send on the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    data: mpsc::Sender<Packet>,
    control: mpsc::Sender<Packet>,
    credits: Arc<Credits>,
    /// The number of packets that the transport has taken.
    taken: Arc<AtomicU64>,
    ended: CancellationToken,
}

/// The packets of a [`Link`], in the order in which they are sent. Ends after the last one when every sender is dropped, and at once by [`Link::end`].
#[derive(Debug)]
pub(crate) struct Outbound {
    data: mpsc::Receiver<Packet>,
    control: mpsc::Receiver<Packet>,
    /// A packet of data that has left its queue, and waits for the control packets that were sent before it.
    held: Option<Packet>,
    credits: Arc<Credits>,
    taken: Arc<AtomicU64>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    token: CancellationToken,
    segment: Segment,
}

/// Creates a link whose packets count for this segment, and on which at most `data_packets` of data wait.
pub(crate) fn link(segment: Segment, data_packets: usize) -> (Link, Outbound) {
    let ((data, data_queue), (control, control_queue)) = (mpsc::channel(data_packets), mpsc::channel(CONTROL_PACKETS));
    let (token, credits, taken) = (CancellationToken::new(), Arc::new(Credits::default()), Arc::<AtomicU64>::default());
    let ended = Box::pin(token.clone().cancelled_owned());
    let outbound = Outbound {
        data: data_queue,
        control: control_queue,
        held: None,
        credits: Arc::clone(&credits),
        taken: Arc::clone(&taken),
        ended,
        token: token.clone(),
        segment,
    };
    (Link { data, control, credits, taken, ended: token }, outbound)
}

impl Link {
    /// Sends a control packet without waiting. A peer that has left [`CONTROL_PACKETS`] unread ends the session.
    pub(crate) fn control(&self, packet: Packet) {
        if let Err(mpsc::error::TrySendError::Full(packet)) = self.control.try_send(packet) {
            tracing::warn!(packet = packet::name(&packet), "the peer of a tunnel reads no packets");
            self.end();
        }
    }

    /// Sends a packet behind the data that waits. Returns when there is room in the queue.
    ///
    /// # Errors
    /// [`Ended`], also when the peer has taken no packet for [`SEND_TIMEOUT`]. A peer that takes packets may take those of many other connections first.
    pub(crate) async fn send(&self, packet: Packet) -> Result<(), Ended> {
        let mut sending = pin!(self.data.send(packet));
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            match clock::timeout(SEND_TIMEOUT, sending.as_mut()).await {
                Ok(sent) => return sent.map_err(|_| Ended),
                Err(_) if self.taken.load(Ordering::Relaxed) == taken => return Err(Ended),
                Err(_) => {}
            }
        }
    }

    /// Sends a packet behind the data that waits, and waits as long as the reader of the stream's one connection takes. The transport's keepalive finds a lost peer.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn deliver(&self, packet: Packet) -> Result<(), Ended> {
        self.data.send(packet).await.map_err(|_| Ended)
    }

    /// Sends a control packet that is no answer to a received one. Returns when there is room in the queue.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn prompt(&self, packet: Packet) -> Result<(), Ended> {
        self.control.send(packet).await.map_err(|_| Ended)
    }

    /// Sends a packet behind the data that waits, or ahead of it if the queue is full.
    pub(crate) fn send_or_overtake(&self, packet: Packet) {
        if let Err(mpsc::error::TrySendError::Full(packet)) = self.data.try_send(packet) {
            self.control(packet);
        }
    }

    /// Sends bytes of a connection.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub(crate) async fn data(&self, connect_id: i64, data: Bytes) -> Result<(), Ended> {
        self.send(packet::data(connect_id, data)).await
    }

    /// Returns the queue of credit for the peer, which overtakes data, too.
    pub(crate) fn credits(&self) -> Arc<Credits> {
        Arc::clone(&self.credits)
    }

    /// Returns a sender of data packets for code that polls.
    pub(crate) fn sender(&self) -> mpsc::Sender<Packet> {
        self.data.clone()
    }

    /// Ends the stream. Packets that wait are dropped.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Completes when the stream has ended: by [`Link::end`], or because the transport dropped the [`Outbound`].
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = self.data.closed() => {}
        }
    }
}

impl Stream for Outbound {
    type Item = Packet;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Packet>> {
        let this = self.get_mut();
        if this.ended.as_mut().poll(context).is_ready() {
            this.data.close();
            this.control.close();
            return Poll::Ready(None);
        }
        let Self { data, control, credits, held, .. } = this;
        let first = |context: &mut Context<'_>| match control.poll_recv(context) {
            Poll::Ready(Some(packet)) => Poll::Ready(Some(packet)),
            control => match credits.poll_next(context) {
                Poll::Ready(packet) => Poll::Ready(Some(packet)),
                Poll::Pending => control,
            },
        };
        let next = order::next(context, held, |context| data.poll_recv(context), first);
        if let Poll::Ready(Some(packet)) = &next {
            this.segment.packet(packet);
            this.taken.fetch_add(1, Ordering::Relaxed);
        }
        next
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn control_packets_overtake_data_and_an_orderly_end_does_not() {
        let (link, mut outbound) = link(Segment::TO_AGENT, MANY_CONNECTIONS);
        link.data(1, Bytes::from_static(b"a")).await.unwrap();
        link.send_or_overtake(packet::close(1));
        link.control(packet::close(2));
        let sent: Vec<Packet> = outbound.by_ref().take(3).collect().await;
        let data = packet::data(1, Bytes::from_static(b"a"));
        assert_eq!(sent, [packet::close(2), data, packet::close(1)]);
        assert!(outbound.next().now_or_never().is_none());
        link.data(1, Bytes::from_static(b"b")).await.unwrap();
        link.credits().give(7, 100);
        link.credits().give(2, 10);
        link.credits().give(7, 50);
        link.control(packet::drain());
        let sent: Vec<Packet> = outbound.by_ref().take(4).collect().await;
        let data = packet::data(1, Bytes::from_static(b"b"));
        assert_eq!(sent, [packet::drain(), packet::window(2, 10), packet::window(7, 150), data]);
        assert!(outbound.next().now_or_never().is_none());
        link.credits().give(1, 1);
        assert_eq!(outbound.next().await, Some(packet::window(1, 1)));
        link.end();
        assert_eq!(outbound.next().await, None);
        assert_eq!(link.send(packet::drain()).await, Err(Ended));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_blocks_a_sender_for_a_bounded_time_and_controls_never() {
        let (link, outbound) = link(Segment::TO_AGENT, MANY_CONNECTIONS);
        for _ in 0..MANY_CONNECTIONS {
            link.send(packet::drain()).await.unwrap();
        }
        let begun = clock::now();
        assert_eq!(link.send(packet::drain()).await, Err(Ended));
        assert_eq!(begun.elapsed(), SEND_TIMEOUT);
        for _ in 0..CONTROL_PACKETS {
            link.control(packet::drain());
        }
        assert!(link.ended().now_or_never().is_none());
        link.control(packet::drain());
        link.ended().await;
        drop(outbound);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_is_waited_for() {
        let (link, mut outbound) = link(Segment::TO_AGENT, 1);
        let senders = futures::future::join_all((0..5).map(|_| link.send(packet::drain())));
        let reads = async {
            for _ in 0..5 {
                clock::sleep(SEND_TIMEOUT / 2).await;
                outbound.next().await.unwrap();
            }
        };
        let (sent, ()) = futures::join!(senders, reads);
        assert_eq!(sent, [Ok(()); 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_of_one_connection_is_waited_for() {
        let (link, mut outbound) = link(Segment::TO_CLIENT, ONE_CONNECTION);
        for _ in 0..ONE_CONNECTION {
            link.deliver(packet::drain()).await.unwrap();
        }
        let begun = clock::now();
        let reads = async {
            clock::sleep(10 * SEND_TIMEOUT).await;
            outbound.next().await
        };
        let (delivered, _) = futures::join!(link.deliver(packet::drain()), reads);
        assert_eq!((delivered, begun.elapsed()), (Ok(()), 10 * SEND_TIMEOUT));
        link.end();
        assert_eq!(outbound.next().await, None);
        assert_eq!(link.deliver(packet::drain()).await, Err(Ended));
    }
}
