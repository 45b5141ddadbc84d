//! A SPDY connection: one future reads and writes the frames, handles open and accept streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use super::frame::{Frame, Head, REFUSED, data_head};
use super::headers::{Packer, Unpacker};
use super::open_streams::{OpenStreams, Out};
use super::stream::Stream;
use super::{Error, Headers};
use crate::{Io, LINGER, MAX_CHUNK};

/// The most pieces of data queued for the reader of one stream.
const MAX_QUEUED_PIECES: usize = 4;
/// The most frames queued for writing to the connection.
const MAX_QUEUED_FRAMES: usize = 8;
/// The most streams that the peer has opened and the caller has not yet accepted.
const ACCEPT_BACKLOG: usize = 32;
/// The most streams open at once.
const MAX_STREAMS: usize = 1024;
/// How long a peer may take to answer a new stream (client-go: `createStreamResponseTimeout`).
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a client pings (upstream's `PingPeriod` towards kubelets), so that proxies on the way do not close an idle connection.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that requested the connection; its streams have odd numbers.
    Client,
    /// The side that accepted the connection; its streams have even numbers.
    Server,
}

/// The handle of a connection. Dropping the handle and all its streams ends the connection in an orderly way.
#[derive(Debug)]
pub struct Connection {
    out: mpsc::Sender<Out>,
    streams: Arc<OpenStreams>,
    /// The number of the next own stream. Locked while the stream is announced: numbers must rise on the wire.
    next: tokio::sync::Mutex<u32>,
    incoming: mpsc::Receiver<Stream>,
}

/// Starts SPDY on `io`. The returned future does all work; the future ends when the peer disconnects or all handles are dropped. At most 8 × [`MAX_CHUNK`] bytes
/// are buffered, plus 4 × [`MAX_CHUNK`] for each unread stream.
pub fn start(io: impl Io, role: Role) -> (Connection, impl Future<Output = Result<(), Error>> + Send) {
    let (out, outgoing) = mpsc::channel(MAX_QUEUED_FRAMES);
    let (accepted, incoming) = mpsc::channel(ACCEPT_BACKLOG);
    let (pongs, pongs_out) = mpsc::channel(MAX_QUEUED_PIECES);
    let streams = Arc::new(OpenStreams::default());
    let reader = Reader {
        role,
        streams: streams.clone(),
        out: out.downgrade(),
        accepted,
        pongs,
        unpacker: Unpacker::new(),
        last: 0,
    };
    let first = if role == Role::Client { 1 } else { 2 };
    let connection = Connection { out, streams: streams.clone(), next: tokio::sync::Mutex::new(first), incoming };
    let carry = async move {
        let (read, write) = tokio::io::split(io);
        let mut reading = std::pin::pin!(reader.run(read));
        let result = tokio::select! {
            result = &mut reading => result,
            result = run_writer(write, outgoing, pongs_out, role) => {
                // No handle is left to receive a result, so a timeout loses nothing.
                let _ = tokio::time::timeout(LINGER, reading).await;
                result
            }
        };
        // Dropping the entries wakes the callers that wait for data or a reply, with an error.
        streams.clear();
        result
    };
    (connection, carry)
}

impl Connection {
    /// Opens a stream; returns when the peer has accepted the stream.
    ///
    /// # Errors
    /// [`Error::Closed`] when the connection has ended or the peer refuses the stream, [`Error::Late`] after 30 s.
    pub async fn open(&self, headers: Headers) -> Result<Stream, Error> {
        let (answered, answer) = oneshot::channel();
        let (parts, receiver) = mpsc::channel(MAX_QUEUED_PIECES);
        let mut next = self.next.lock().await;
        let id = *next;
        *next = next.checked_add(2).filter(|next| *next <= 0x7fff_ffff).ok_or(Error::Closed)?;
        self.streams.insert(id, Some(parts), Some(answered));
        let stream = Stream::new(id, headers.clone(), receiver, self.out.clone(), self.streams.clone());
        let open = Out::Frame(Frame::Open { id, fin: false, headers });
        self.out.send(open).await.map_err(|_| Error::Closed)?;
        drop(next);
        match tokio::time::timeout(REPLY_TIMEOUT, answer).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Late),
        }
    }

    /// Returns the next stream that the peer opened; `None` when the peer has disconnected. Cancel safe.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.incoming.recv().await
    }
}

struct Reader {
    role: Role,
    streams: Arc<OpenStreams>,
    /// A weak sender, so that the reader does not keep the writer running.
    out: mpsc::WeakSender<Out>,
    accepted: mpsc::Sender<Stream>,
    pongs: mpsc::Sender<u32>,
    unpacker: Unpacker,
    /// The number of the last stream that the peer opened.
    last: u32,
}

impl Reader {
    async fn run(mut self, io: impl AsyncRead + Unpin) -> Result<(), Error> {
        let mut io = BufReader::with_capacity(MAX_CHUNK, io);
        loop {
            if io.fill_buf().await?.is_empty() {
                return Ok(());
            }
            let mut head = [0; 8];
            io.read_exact(&mut head).await?;
            match Head::parse(head)? {
                Head::Data { id, fin, length } => self.data(&mut io, id, fin, length).await?,
                Head::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    io.read_exact(&mut payload).await?;
                    let frame = Frame::parse(kind, flags, &payload, &mut self.unpacker)?;
                    if self.frame(frame).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn data<R: AsyncRead + Unpin>(
        &self,
        io: &mut BufReader<R>,
        id: u32,
        fin: bool,
        length: usize,
    ) -> Result<(), Error> {
        let parts = self.streams.parts(id);
        let mut left = length;
        while left > 0 {
            let there = io.fill_buf().await?;
            if there.is_empty() {
                return Err(Error::Protocol("cut off"));
            }
            let part = there.get(..left.min(there.len())).unwrap_or_default();
            let (part, taken) = (Bytes::copy_from_slice(part), part.len());
            io.consume(taken);
            left -= taken;
            if let Some(parts) = &parts {
                // Fails when the receiver was dropped; the data is discarded then.
                let _ = parts.send(part).await;
            }
        }
        if fin {
            self.streams.change(id, |entry| entry.parts = None);
        }
        Ok(())
    }

    /// Handles a frame; returns `true` when the frame is the last one.
    async fn frame(&mut self, frame: Frame) -> Result<bool, Error> {
        match frame {
            Frame::Open { id, fin, headers } => self.opened(id, fin, headers).await?,
            Frame::Reply { id, fin } => self.streams.change(id, |entry| {
                if let Some(answered) = entry.answered.take() {
                    // The caller may have stopped waiting.
                    let _ = answered.send(());
                }
                if fin {
                    entry.parts = None;
                }
            }),
            Frame::Reset { id, .. } => self.streams.change(id, |entry| (entry.parts, entry.answered) = (None, None)),
            Frame::Headers { id, fin: true } => self.streams.change(id, |entry| entry.parts = None),
            Frame::Ping { id } if self.foreign(id) => {
                // A peer that does not read the answers gets fewer of them.
                let _ = self.pongs.try_send(id);
            }
            Frame::GoAway { .. } => return Ok(true),
            Frame::Ping { .. } | Frame::Headers { .. } | Frame::Ignored => {}
        }
        Ok(false)
    }

    async fn opened(&mut self, id: u32, fin: bool, headers: Headers) -> Result<(), Error> {
        if !self.foreign(id) || id <= self.last {
            return Err(Error::Protocol("wrong number of a stream"));
        }
        self.last = id;
        let Some(out) = self.out.upgrade() else { return Ok(()) };
        if self.streams.len() >= MAX_STREAMS {
            return out.send(Out::Frame(Frame::Reset { id, status: REFUSED })).await.map_err(|_| Error::Closed);
        }
        let (parts, receiver) = mpsc::channel(MAX_QUEUED_PIECES);
        let parts = (!fin).then_some(parts);
        self.streams.insert(id, parts, None);
        let stream = Stream::new(id, headers, receiver, out.clone(), self.streams.clone());
        out.send(Out::Frame(Frame::Reply { id, fin: false })).await.map_err(|_| Error::Closed)?;
        // When no caller accepts streams, the stream is dropped, which sends a reset.
        let _ = self.accepted.send(stream).await;
        Ok(())
    }

    /// Whether a number belongs to the peer: the client's are odd, the server's even.
    fn foreign(&self, id: u32) -> bool {
        id.is_multiple_of(2) == (self.role == Role::Client)
    }
}

async fn run_writer(
    mut io: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Out>,
    mut pongs: mpsc::Receiver<u32>,
    role: Role,
) -> Result<(), Error> {
    let mut packer = Packer::new()?;
    let mut buffer = BytesMut::new();
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.reset();
    let mut ping = 1_u32;
    loop {
        let next = tokio::select! {
            biased;
            Some(id) = pongs.recv() => Some(Out::Frame(Frame::Ping { id })),
            next = outgoing.recv() => next,
            _ = ticks.tick(), if role == Role::Client => {
                ping = if ping >= 0x7fff_fffd { 1 } else { ping + 2 };
                Some(Out::Frame(Frame::Ping { id: ping }))
            }
        };
        match next {
            Some(Out::Data { id, mut data, fin }) => {
                io.write_all(&data_head(id, fin, data.len())).await?;
                io.write_all_buf(&mut data).await?;
            }
            Some(Out::Frame(frame)) => {
                buffer.clear();
                frame.put(&mut buffer, &mut packer)?;
                io.write_all_buf(&mut buffer).await?;
            }
            None => {
                Frame::GoAway { last: 0 }.put(&mut buffer, &mut packer)?;
                io.write_all_buf(&mut buffer).await?;
                io.shutdown().await?;
                return Ok(());
            }
        }
        if outgoing.is_empty() {
            io.flush().await?;
        }
    }
}
