//! WebSocket `v5.channel.k8s.io` towards the client, SPDY towards the kubelet (KEP-4006, upstream `StreamTranslatorHandler`).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use oarlock_meta::Status;
use tokio::sync::Mutex;

use super::outcome::{failure, of_message};
use super::{PROTOCOLS, STREAM_TYPE, Streams, channel};
use crate::Io;
use crate::spdy::{self, Receiver, Role, Sender};
use crate::websocket::{self, Message, WebSocket};

/// A client that neither sends nor takes anything for this long is given up (upstream: four hours).
const IDLE: Duration = Duration::from_secs(4 * 3600);
/// As much is read of what is said about a command's end.
const MAX_ERROR: usize = 64 << 10;

/// A protocol of the SPDY side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// `channel.k8s.io`.
    V1,
    /// `v2.channel.k8s.io`.
    V2,
    /// `v3.channel.k8s.io`.
    V3,
    /// `v4.channel.k8s.io`.
    V4,
    /// `v5.channel.k8s.io`.
    V5,
}

impl Protocol {
    /// The protocol that a server chose; the first one when it chose none.
    #[must_use]
    pub fn chosen(name: &str) -> Option<Self> {
        const ALL: [Protocol; 5] = [Protocol::V5, Protocol::V4, Protocol::V3, Protocol::V2, Protocol::V1];
        if name.is_empty() {
            return Some(Self::V1);
        }
        let at = PROTOCOLS.iter().position(|known| *known == name)?;
        ALL.get(at).copied()
    }
}

type Sink<T> = Mutex<SplitSink<WebSocket<T>, Message>>;

/// Tells the client at once that it is connected: an empty message on the first channel it listens to.
///
/// # Errors
/// When the client is gone.
async fn greet<T: Io>(sink: &Sink<T>, streams: Streams) -> Result<(), ()> {
    let channel = match streams {
        Streams { stdout: true, .. } => channel::STDOUT,
        Streams { stderr: true, .. } => channel::STDERR,
        _ => channel::ERROR,
    };
    put(sink, channel, &[]).await
}

/// Tells a client that was upgraded already why there is nothing behind it.
pub async fn refuse<T: Io>(client: WebSocket<T>, streams: Streams, status: Status) {
    let (sink, source) = client.split();
    let sink = Mutex::new(sink);
    if greet(&sink, streams).await.is_ok() {
        finish(sink, source, &status).await;
    }
}

/// Carries a command's streams between a client and the kubelet's side until the command ends or the client leaves. Returns how it ended, if
/// the client was still there to be told.
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
                // The end of the connection shows in its streams.
                () = &mut carry, if !over => over = true,
            }
        }
    };
    // Told that this is all, the kubelet ends its side too. Hung up on while it speaks, it would call that an error.
    drop(connection);
    let told = async {
        if let Some(status) = &status {
            finish(sink, source, status).await;
        }
    };
    let parted = async {
        if !over {
            crate::upgrade::after(carry).await;
        }
    };
    tokio::join!(told, parted);
    status
}

/// The streams of a command on the kubelet's side.
struct Opened {
    error: Receiver,
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    resize: Option<Sender>,
}

impl Opened {
    /// Opens them in the order that upstream's client keeps; the far side begins when all are there.
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
            // What the far side writes to stdin is nothing.
            stdin: open(streams.stdin, "stdin").await?.map(|(_, sender)| sender),
            stdout: open(streams.stdout, "stdout").await?.map(|(receiver, _)| receiver),
            stderr: open(streams.stderr && !streams.tty, "stderr").await?.map(|(receiver, _)| receiver),
            resize: open(streams.tty && protocol >= Protocol::V3, "resize").await?.map(|(_, sender)| sender),
        })
    }
}

/// Reads what the client sends until it leaves.
async fn input<T: Io>(source: &mut SplitStream<WebSocket<T>>, mut stdin: Option<Sender>, resize: Option<Sender>) {
    while let Ok(Some(Ok(message))) = tokio::time::timeout(IDLE, source.next()).await {
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
            // Its end is on its way to the client; what else the client says is of no use.
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

/// Passes on what a command writes.
async fn output<T: Io>(sink: &Sink<T>, channel: u8, from: Option<Receiver>) {
    let Some(mut from) = from else { return };
    while let Some(part) = from.next().await {
        if put(sink, channel, &part).await.is_err() {
            return;
        }
    }
}

/// All that comes, up to a limit.
async fn whole(from: &mut Receiver) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(part) = from.next().await {
        if whole.len() + part.len() <= MAX_ERROR {
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
    match tokio::time::timeout(IDLE, sink.send(Message::Binary(message.freeze()))).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(()),
    }
}

/// Tells how it ended, and goodbye.
async fn finish<T: Io>(sink: Sink<T>, source: SplitStream<WebSocket<T>>, status: &Status) {
    if put(&sink, channel::ERROR, &status.to_json()).await.is_ok()
        && let Ok(socket) = sink.into_inner().reunite(source)
    {
        websocket::close(socket).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_name() {
        assert_eq!(Protocol::chosen("v4.channel.k8s.io"), Some(Protocol::V4));
        assert_eq!(
            (Protocol::chosen(""), Protocol::chosen("channel.k8s.io")),
            (Some(Protocol::V1), Some(Protocol::V1))
        );
        assert_eq!(Protocol::chosen("v6.channel.k8s.io"), None);
    }
}
