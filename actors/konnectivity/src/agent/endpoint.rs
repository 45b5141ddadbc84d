//! One connection of an agent to a destination.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use oarlock_runtime::clock;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::connections::Connections;
use crate::inbound::Inbound;
use crate::limits::{CLOSE_TIMEOUT, Limits, MAX_DATA};
use crate::link::Link;
use crate::metrics::{Counted, FAMILIES};
use crate::packet;
use crate::window::Windows;

/// Free space below which a new buffer is taken for the next read.
const MIN_READ: usize = 4 << 10;

/// What the connections of one stream to a server share.
#[derive(Debug)]
pub(super) struct AgentStream {
    pub(super) link: Link,
    pub(super) connections: Mutex<Connections<Arc<Inbound>>>,
    pub(super) limits: Limits,
    /// Flow control; absent if a side has not offered it.
    pub(super) windows: Option<Windows>,
}

/// Dials a destination, and carries bytes until the connection has ended. However the connection ends, the server gets a packet that says so.
pub(super) async fn serve(stream: Arc<AgentStream>, random: i64, address: String, inbound: Arc<Inbound>) {
    let begun = clock::now();
    let dialled = tokio::select! {
        biased;
        _ = poll_fn(|context| inbound.poll_broken(context)) => return,
        dialled = clock::timeout(stream.limits.dial_timeout, TcpStream::connect(&address)) => dialled,
    };
    let failed = |text: String, timeout| {
        FAMILIES.endpoint_failure(timeout);
        if stream.connections.lock().fail(random) {
            stream.link.control(packet::dial_failed(random, text));
        }
    };
    let socket = match dialled {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return failed(format!("dial tcp {address}: {error}"), false),
        Err(_) => return failed(format!("dial tcp {address}: i/o timeout"), true),
    };
    FAMILIES.endpoint_dial_seconds.observe(begun.elapsed().as_secs_f64());
    // TCP_NODELAY only saves latency; a failure is harmless.
    let _ = socket.set_nodelay(true);
    let Some(id) = stream.connections.lock().establish(random) else { return };
    let _counted = Counted::new(&FAMILIES.open_endpoints);
    // A stream that has ended meanwhile has broken the connection, which is then found below.
    inbound.open(id);
    stream.link.control(packet::dialled(random, id));
    let ended = carry(&stream, id, &inbound, socket).await;
    stream.connections.lock().remove(id);
    match ended {
        // Behind the data. A server that takes nothing any more has its stream ended, which frees everything.
        Ok(()) if stream.link.send(packet::closed(id, "")).await.is_ok() => {}
        Ok(()) => stream.link.end(),
        Err(error) => stream.link.control(packet::closed(id, error)),
    }
}

/// Carries bytes both ways until the destination closes, the server asks to close, or something breaks, with the text of an error.
async fn carry(stream: &AgentStream, id: i64, inbound: &Inbound, socket: TcpStream) -> Result<(), String> {
    let (from, to) = socket.into_split();
    let up = async {
        tokio::select! {
            biased;
            // What was written to the destination still arrives, see below.
            () = poll_fn(|context| inbound.poll_abandoned(context)) => std::future::pending().await,
            ended = read(stream, id, inbound, from) => ended,
        }
    };
    let down = async {
        write(inbound, to).await?;
        poll_fn(|context| inbound.poll_abandoned(context)).await;
        Ok(())
    };
    tokio::select! {
        biased;
        broken = poll_fn(|context| inbound.poll_broken(context)) => Err(broken.to_string()),
        ended = up => ended,
        ended = down => ended,
        () = late(inbound) => Ok(()),
    }
}

/// Waits until the dialler has closed its direction and the destination has had its time to read and send the rest, and to close. A destination that must wait for the
/// dialler's reader has as long as the reader takes.
async fn late(inbound: &Inbound) {
    poll_fn(|context| inbound.poll_closed(context)).await;
    loop {
        inbound.quiet(CLOSE_TIMEOUT).await;
        if !inbound.waits_for_reader() {
            return;
        }
    }
}

/// Sends what the destination sends, as far as the connection has credit, until the destination closes.
async fn read(stream: &AgentStream, id: i64, inbound: &Inbound, mut from: OwnedReadHalf) -> Result<(), String> {
    let mut buffer = BytesMut::new();
    loop {
        // The end of the connection ends this future.
        let room = poll_fn(|context| inbound.poll_credit(context)).await;
        if buffer.capacity() < MIN_READ {
            buffer.reserve(MAX_DATA);
        }
        let mut space = (&mut buffer).limit(room.min(MAX_DATA));
        let read = from.read_buf(&mut space).await.map_err(|error| format!("read: {error}"))?;
        if read == 0 {
            return Ok(());
        }
        inbound.spend(read);
        stream.link.data(id, buffer.split().freeze()).await.map_err(|error| error.to_string())?;
    }
}

/// Writes what the server sends, and closes this direction when the server does.
async fn write(inbound: &Inbound, mut to: OwnedWriteHalf) -> Result<(), String> {
    while let Some(data) = poll_fn(|context| inbound.poll_next(context)).await {
        let data = data.map_err(|error| error.to_string())?;
        to.write_all(&data).await.map_err(|error| format!("write: {error}"))?;
    }
    to.shutdown().await.map_err(|error| format!("write: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::inbound::Flow;
    use crate::link::{MANY_CONNECTIONS, link};
    use crate::metrics::Segment;

    #[tokio::test(start_paused = true)]
    async fn the_rest_has_its_time_and_as_long_as_its_reader_takes() {
        let inbound = Inbound::new(10_000, None, &FAMILIES.agent_buffered);
        inbound.open(1);
        inbound.end(None);
        let begun = clock::now();
        late(&inbound).await;
        assert_eq!(begun.elapsed(), CLOSE_TIMEOUT);
        let (link, _outbound) = link(Segment::AGENT_SENDS, MANY_CONNECTIONS);
        let flow = Flow::new(Windows { own: 10_000, peer: 10_000 }, &link);
        let inbound = Inbound::new(10_000, Some(flow), &FAMILIES.agent_buffered);
        inbound.open(1);
        inbound.push(Bytes::from_static(b"rest")).unwrap();
        inbound.end(None);
        inbound.spend(10_000);
        let begun = clock::now();
        let dialler = async {
            clock::sleep(Duration::from_secs(3600)).await;
            inbound.grant(5_000).unwrap();
            clock::sleep(CLOSE_TIMEOUT / 2).await;
            assert!(poll_fn(|context| inbound.poll_next(context)).await.unwrap().is_ok());
        };
        let ((), ()) = futures::join!(late(&inbound), dialler);
        // The credit moves within one period, the rest is taken in the next one.
        assert!((Duration::from_secs(3610)..=Duration::from_secs(3640)).contains(&begun.elapsed()));
        // A dialler that has left gives no credit any more.
        inbound.spend(10_000);
        inbound.end(None);
        let begun = clock::now();
        late(&inbound).await;
        assert!(begun.elapsed() <= 2 * CLOSE_TIMEOUT);
    }
}
