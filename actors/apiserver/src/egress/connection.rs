//! A connection that keeps its account until it is dropped.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use oarlock_streams::BoxIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Account;
use super::metrics::Open;

/// What a connection counts against.
#[derive(Debug)]
pub(super) struct Held {
    _account: Account,
    _open: Option<Open>,
}

impl Held {
    pub(super) fn new(account: Account, open: Open) -> Self {
        Self { _account: account, _open: Some(open) }
    }

    /// Of a pipe, which is no connection in metrics.
    pub(super) fn of_pipe(account: Account) -> Self {
        Self { _account: account, _open: None }
    }
}

/// A connection, over any transport.
pub(super) struct Connection {
    io: BoxIo,
    _held: Held,
}

impl Connection {
    pub(super) fn new(io: BoxIo, held: Held) -> Self {
        Self { io, _held: held }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
