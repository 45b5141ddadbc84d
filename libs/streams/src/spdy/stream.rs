//! One stream: what comes, and what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::connection::{Out, Table};
use super::frame::{CANCEL, Frame};
use super::{Error, Headers};
use crate::CHUNK;

/// A stream. When both halves are dropped before it ended, it is reset.
#[derive(Debug)]
pub struct Stream {
    headers: Headers,
    receiver: Receiver,
    sender: Sender,
}

/// What the peer sends. Dropping it forgets what still comes.
#[derive(Debug)]
pub struct Receiver {
    parts: mpsc::Receiver<Bytes>,
    _half: Arc<Half>,
}

/// What is sent to the peer. Clones send on the same stream.
#[derive(Clone, Debug)]
pub struct Sender {
    half: Arc<Half>,
}

/// Told the table when nobody holds the stream any more.
#[derive(Debug)]
struct Half {
    id: u32,
    out: mpsc::Sender<Out>,
    table: Arc<Table>,
    /// This side said that it is done.
    finished: AtomicBool,
}

impl Stream {
    pub(super) fn new(
        id: u32,
        headers: Headers,
        parts: mpsc::Receiver<Bytes>,
        out: mpsc::Sender<Out>,
        table: Arc<Table>,
    ) -> Self {
        let half = Arc::new(Half { id, out, table, finished: AtomicBool::new(false) });
        Self { headers, receiver: Receiver { parts, _half: half.clone() }, sender: Sender { half } }
    }

    /// The number of the stream.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.sender.half.id
    }

    /// The first header of this (lower case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Both halves.
    #[must_use]
    pub fn split(self) -> (Receiver, Sender) {
        (self.receiver, self.sender)
    }
}

impl Receiver {
    /// The next piece; `None` when the peer is done, has reset the stream, or is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.parts.recv().await
    }
}

impl Sender {
    /// Sends bytes. Returns when the connection has taken them over; waits while it is busy.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn send(&self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(CHUNK));
            self.put(Out::Data { id: self.half.id, data: part, fin: false }).await?;
        }
        Ok(())
    }

    /// Says that nothing more comes.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn finish(&self) -> Result<(), Error> {
        if self.half.finished.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.put(Out::Data { id: self.half.id, data: Bytes::new(), fin: true }).await
    }

    async fn put(&self, out: Out) -> Result<(), Error> {
        self.half.out.send(out).await.map_err(|_| Error::Closed)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let ended = self.table.forget(self.id);
        if !(ended && self.finished.load(Ordering::Relaxed)) {
            // A connection that has no room for this is stuck or over; its end ends the stream too.
            let _ = self.out.try_send(Out::Frame(Frame::Reset { id: self.id, status: CANCEL }));
        }
    }
}
