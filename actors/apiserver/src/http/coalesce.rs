//! Answers that are ready together leave together.
//!
//! One commit answers many requests of a connection at once, each from a task of its own. The first to be done would wake the connection, which
//! would encrypt and send that one alone. Here a flush waits until the tasks that are ready now have run: it never waits for time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More than this is written at once, in bytes.
const MOST: usize = 64 << 10;

/// A stream whose flushes are put off once. Whoever drives it must flush again when it is woken, as HTTP/2 connections do; HTTP/1.1 and upgraded
/// connections do not.
#[derive(Debug)]
pub(super) struct Coalesce<T> {
    io: T,
    gathered: BytesMut,
    /// The flush of what is gathered was put off, and the driver was woken.
    put_off: bool,
}

impl<T: AsyncWrite + Unpin> Coalesce<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, gathered: BytesMut::new(), put_off: false }
    }

    /// Writes what is gathered.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gathered.has_remaining() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.gathered))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gathered.advance(written),
            }
        }
        self.put_off = false;
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
        if self.gathered.len() + length > MOST {
            ready!(self.poll_drain(cx))?;
        }
        if length > MOST {
            return Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        }
        bufs.iter().for_each(|buf| self.gathered.extend_from_slice(buf));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathered.has_remaining() && !self.put_off {
            self.put_off = true;
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

    use super::{Coalesce, MOST};

    /// Bytes that have arrived.
    fn arrived(peer: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 4 * MOST];
        peer.read(&mut bytes).now_or_never().map_or(0, Result::unwrap)
    }

    #[tokio::test]
    async fn what_is_written_between_a_flush_and_the_next_goes_with_it() {
        let (io, mut peer) = duplex(4 * MOST);
        let mut io = Coalesce::new(io);
        io.write_all(b"one").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 0);
        io.write_all(b"two").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 6);
        // And a later one is put off again.
        io.write_all(b"three").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(arrived(&mut peer), 0);
        io.shutdown().await.unwrap();
        assert_eq!(arrived(&mut peer), 5);
    }

    #[tokio::test]
    async fn much_is_not_gathered_and_stays_in_order() {
        let (io, mut peer) = duplex(4 * MOST);
        let mut io = Coalesce::new(io);
        io.write_all(b"first").await.unwrap();
        io.write_all(&vec![7; MOST + 1]).await.unwrap();
        let mut bytes = vec![0; 5 + MOST + 1];
        peer.read_exact(&mut bytes).await.unwrap();
        assert_eq!((&bytes[..5], bytes[5], io.gathered.len()), (&b"first"[..], 7, 0));
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_writer_back() {
        let (io, _peer) = duplex(16);
        let mut io = Coalesce::new(io);
        assert!(io.write_all(&vec![7; 2 * MOST]).now_or_never().is_none());
        assert!(io.gathered.len() <= MOST);
    }

    #[tokio::test]
    async fn a_put_off_flush_wakes_its_driver() {
        let (io, mut peer) = duplex(4 * MOST);
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
