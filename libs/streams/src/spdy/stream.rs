//! One stream of a SPDY connection, with its receiving and its sending half.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::frame::{CANCEL, Frame};
use super::open_streams::{OpenStreams, Out};
use super::{Error, Headers};
use crate::MAX_CHUNK;

/// A stream. Dropping both halves before the end resets the stream.
#[derive(Debug)]
pub struct Stream {
    headers: Headers,
    receiver: Receiver,
    sender: Sender,
}

/// The receiving half of a stream. Dropping the receiver discards further data.
#[derive(Debug)]
pub struct Receiver {
    parts: mpsc::Receiver<Bytes>,
    _half: Arc<Half>,
}

/// The sending half of a stream. Clones send on the same stream.
#[derive(Clone, Debug)]
pub struct Sender {
    half: Arc<Half>,
}

/// The handle that removes the stream from the connection when both halves are dropped.
#[derive(Debug)]
struct Half {
    id: u32,
    out: mpsc::Sender<Out>,
    streams: Arc<OpenStreams>,
    /// Whether this side has ended the stream.
    finished: AtomicBool,
}

impl Stream {
    pub(super) fn new(
        id: u32,
        headers: Headers,
        parts: mpsc::Receiver<Bytes>,
        out: mpsc::Sender<Out>,
        streams: Arc<OpenStreams>,
    ) -> Self {
        let half = Arc::new(Half { id, out, streams, finished: AtomicBool::new(false) });
        Self { headers, receiver: Receiver { parts, _half: half.clone() }, sender: Sender { half } }
    }

    /// Returns the number of the stream.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.sender.half.id
    }

    /// Returns the first header of this (lower case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Splits the stream into its halves.
    #[must_use]
    pub fn split(self) -> (Receiver, Sender) {
        (self.receiver, self.sender)
    }
}

impl Receiver {
    /// Returns the next piece of data; `None` when the peer has ended or reset the stream, or has disconnected. Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.parts.recv().await
    }
}

impl Sender {
    /// Sends bytes. Returns when the connection has queued the bytes; waits while the queue is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn send(&self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(MAX_CHUNK));
            self.put(Out::Data { id: self.half.id, data: part, fin: false }).await?;
        }
        Ok(())
    }

    /// Ends this side of the stream.
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
        let ended = self.streams.forget(self.id);
        if !(ended && self.finished.load(Ordering::Relaxed)) {
            // A connection with a full queue is stuck or has ended; the end of the connection ends the stream too.
            let _ = self.out.try_send(Out::Frame(Frame::Reset { id: self.id, status: CANCEL }));
        }
    }
}
