//! Coalesces the answers of a connection that are ready together into one write.
//!
//! One commit answers many requests of a connection at once, each from its own task. Without this stream the first finished task would wake the
//! connection, which would encrypt and send that answer alone. Here a flush waits until the tasks that are runnable now have run, but never for a
//! timer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of buffered bytes above which the buffer is written at once.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

/// A stream that defers each flush once. The driver must flush again when it is woken: HTTP/2 connections do so, HTTP/1.1 and upgraded connections do
/// not.
#[derive(Debug)]
pub(super) struct Coalesce<T> {
    io: T,
    buffered: BytesMut,
    /// Whether the flush of the buffered bytes was deferred and the driver was woken.
    flush_deferred: bool,
}

impl<T: AsyncWrite + Unpin> Coalesce<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, buffered: BytesMut::new(), flush_deferred: false }
    }

    /// Writes the buffered bytes.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.buffered.has_remaining() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.buffered))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.buffered.advance(written),
            }
        }
        self.flush_deferred = false;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Coalesce<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Coalesce<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if self.buffered.len() + length > MAX_BUFFERED_BYTES {
            ready!(self.poll_drain(cx))?;
        }
        if length > MAX_BUFFERED_BYTES {
            return Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        }
        bufs.iter().for_each(|buf| self.buffered.extend_from_slice(buf));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffered.has_remaining() && !self.flush_deferred {
            self.flush_deferred = true;
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};

    use super::{Coalesce, MAX_BUFFERED_BYTES};

    /// Bytes that the peer has received.
    fn arrived(peer: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 4 * MAX_BUFFERED_BYTES];
        peer.read(&mut bytes).now_or_never().map_or(0, Result::unwrap)
    }

    #[tokio::test]
    async fn what_is_written_between_a_flush_and_the_next_goes_with_it() {
        let (io, mut peer) = duplex(4 * MAX_BUFFERED_BYTES);
        let mut io = Coalesce::new(io);
        io.write_all(b"one").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 0);
        io.write_all(b"two").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 6);
        // A later flush is deferred again.
        io.write_all(b"three").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 0);
        io.shutdown().await.unwrap();
        assert_eq!(arrived(&mut peer), 5);
    }

    #[tokio::test]
    async fn much_is_not_gathered_and_stays_in_order() {
        let (io, mut peer) = duplex(4 * MAX_BUFFERED_BYTES);
        let mut io = Coalesce::new(io);
        io.write_all(b"first").await.unwrap();
        io.write_all(&vec![7; MAX_BUFFERED_BYTES + 1]).await.unwrap();
        let mut bytes = vec![0; 5 + MAX_BUFFERED_BYTES + 1];
        peer.read_exact(&mut bytes).await.unwrap();
        assert_eq!((&bytes[..5], bytes[5], io.buffered.len()), (&b"first"[..], 7, 0));
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_writer_back() {
        let (io, _peer) = duplex(16);
        let mut io = Coalesce::new(io);
        assert!(io.write_all(&vec![7; 2 * MAX_BUFFERED_BYTES]).now_or_never().is_none());
        assert!(io.buffered.len() <= MAX_BUFFERED_BYTES);
    }

    #[tokio::test]
    async fn a_put_off_flush_wakes_its_driver() {
        let (io, mut peer) = duplex(4 * MAX_BUFFERED_BYTES);
        let mut io = Coalesce::new(io);
        io.write_all(b"one").await.unwrap();
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            let flushed = std::pin::Pin::new(&mut io).poll_flush(cx);
            assert!(flushed.is_ready());
            if polls == 2 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        assert_eq!(arrived(&mut peer), 3);
    }
}
