//! Translates WebSocket `v5.channel.k8s.io` of the client to SPDY of the kubelet (KEP-4006, upstream `StreamTranslatorHandler`).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use oarlock_meta::Status;
use tokio::sync::Mutex;

use super::outcome::{failure, of_message};
use super::{Protocol, STREAM_TYPE, Streams, channel};
use crate::Io;
use crate::spdy::{self, Receiver, Role, Sender};
use crate::websocket::{self, Message, WebSocket};

/// How long a client may neither send nor accept anything before the connection is closed (upstream: four hours).
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// The most bytes read from the error stream of a command.
const MAX_ERROR_BYTES: usize = 64 << 10;

type Sink<T> = Mutex<SplitSink<WebSocket<T>, Message>>;

/// Sends an empty message on the first channel that the client reads, which informs the client of the connection.
///
/// # Errors
/// When the client has disconnected.
async fn greet<T: Io>(sink: &Sink<T>, streams: Streams) -> Result<(), ()> {
    let channel = match streams {
        Streams { stdout: true, .. } => channel::STDOUT,
        Streams { stderr: true, .. } => channel::STDERR,
        _ => channel::ERROR,
    };
    put(sink, channel, &[]).await
}

/// Sends `status` to a client whose connection was already upgraded when connecting to the kubelet failed.
pub async fn refuse<T: Io>(client: WebSocket<T>, streams: Streams, status: Status) {
    let (sink, source) = client.split();
    let sink = Mutex::new(sink);
    if greet(&sink, streams).await.is_ok() {
        finish(sink, source, &status).await;
    }
}

/// Carries a command's streams between a client and the kubelet until the command ends or the client disconnects. Returns the command's result; `None` if the
/// client disconnected first.
pub async fn translate<T: Io>(
    client: WebSocket<T>,
    kubelet: impl Io,
    protocol: Protocol,
    streams: Streams,
) -> Option<Status> {
    let (sink, mut source) = client.split();
    let sink = Mutex::new(sink);
    greet(&sink, streams).await.ok()?;
    let (connection, carry) = spdy::start(kubelet, Role::Client);
    let mut carry = std::pin::pin!(async {
        if let Err(error) = carry.await {
            tracing::debug!(%error, "connection to the kubelet ended");
        }
    });
    let mut over = false;
    let status = {
        let mut work = std::pin::pin!(async {
            let opened = match Opened::new(&connection, protocol, streams).await {
                Ok(opened) => opened,
                Err(error) => return Some(failure(error)),
            };
            let Opened { mut error, stdin, stdout, stderr, resize } = opened;
            let outputs = async {
                let (_, _, message) = tokio::join!(
                    output(&sink, channel::STDOUT, stdout),
                    output(&sink, channel::STDERR, stderr),
                    whole(&mut error)
                );
                Some(of_message(protocol, &message))
            };
            tokio::select! {
                status = outputs => status,
                () = input(&mut source, stdin, resize) => None,
            }
        });
        loop {
            tokio::select! {
                status = &mut work => break status,
                // The end of the connection also ends its streams, so `work` notices.
                () = &mut carry, if !over => over = true,
            }
        }
    };
    // Dropping the handle sends GOAWAY, after which the kubelet ends its side too. Closing the socket while the kubelet sends would be an error to the kubelet.
    drop(connection);
    let report = async {
        if let Some(status) = &status {
            finish(sink, source, status).await;
        }
    };
    let disconnect = async {
        if !over {
            crate::upgrade::after(carry).await;
        }
    };
    tokio::join!(report, disconnect);
    status
}

/// The streams of a command on the kubelet's connection.
struct Opened {
    error: Receiver,
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    resize: Option<Sender>,
}

impl Opened {
    /// Opens the streams in the order that upstream's client uses; the kubelet starts when all streams are open.
    async fn new(connection: &spdy::Connection, protocol: Protocol, streams: Streams) -> Result<Self, spdy::Error> {
        let open = async |wanted: bool, name: &str| {
            if !wanted {
                return Ok(None);
            }
            connection.open(vec![(STREAM_TYPE.to_owned(), name.to_owned())]).await.map(|stream| Some(stream.split()))
        };
        let (error, _) = open(true, "error").await?.ok_or(spdy::Error::Closed)?;
        Ok(Self {
            error,
            // The kubelet writes nothing to stdin.
            stdin: open(streams.stdin, "stdin").await?.map(|(_, sender)| sender),
            stdout: open(streams.stdout, "stdout").await?.map(|(receiver, _)| receiver),
            stderr: open(streams.stderr && !streams.tty, "stderr").await?.map(|(receiver, _)| receiver),
            resize: open(streams.tty && protocol >= Protocol::V3, "resize").await?.map(|(_, sender)| sender),
        })
    }
}

/// Reads the client's messages until the client disconnects.
async fn input<T: Io>(source: &mut SplitStream<WebSocket<T>>, mut stdin: Option<Sender>, resize: Option<Sender>) {
    while let Ok(Some(Ok(message))) = tokio::time::timeout(IDLE_TIMEOUT, source.next()).await {
        let data: Bytes = match message {
            Message::Binary(data) => data,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            _ => continue,
        };
        let sent = match data.split_first() {
            Some((&channel::STDIN, _)) => send(stdin.as_ref(), data.slice(1..)).await,
            Some((&channel::RESIZE, _)) => send(resize.as_ref(), data.slice(1..)).await,
            Some((&channel::CLOSE, [channel::STDIN])) => match stdin.take() {
                Some(stdin) => stdin.finish().await,
                None => Ok(()),
            },
            Some((&channel::CLOSE, rest)) if rest.len() != 1 => return,
            _ => Ok(()),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "input of a command that has ended");
            // The command's result is on its way to the client; further input is discarded.
            stdin = None;
        }
    }
}

async fn send(to: Option<&Sender>, data: Bytes) -> Result<(), spdy::Error> {
    match to {
        Some(to) => to.send(data).await,
        None => Ok(()),
    }
}

/// Forwards the output of a command.
async fn output<T: Io>(sink: &Sink<T>, channel: u8, from: Option<Receiver>) {
    let Some(mut from) = from else { return };
    while let Some(part) = from.next().await {
        if put(sink, channel, &part).await.is_err() {
            return;
        }
    }
}

/// Reads a stream to its end and keeps at most [`MAX_ERROR_BYTES`] bytes.
async fn whole(from: &mut Receiver) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(part) = from.next().await {
        if whole.len() + part.len() <= MAX_ERROR_BYTES {
            whole.extend_from_slice(&part);
        }
    }
    whole
}

async fn put<T: Io>(sink: &Sink<T>, channel: u8, data: &[u8]) -> Result<(), ()> {
    let mut message = BytesMut::with_capacity(data.len() + 1);
    message.put_u8(channel);
    message.put_slice(data);
    let mut sink = sink.lock().await;
    match tokio::time::timeout(IDLE_TIMEOUT, sink.send(Message::Binary(message.freeze()))).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(()),
    }
}

/// Sends the command's result and closes the WebSocket.
async fn finish<T: Io>(sink: Sink<T>, source: SplitStream<WebSocket<T>>, status: &Status) {
    if put(&sink, channel::ERROR, &status.to_json()).await.is_ok()
        && let Ok(socket) = sink.into_inner().reunite(source)
    {
        websocket::close(socket).await;
    }
}
