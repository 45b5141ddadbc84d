//! The frontends' side of the server: `ProxyService`, one connection a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request};
use hyper::body::Incoming;
use oarlock_contracts::konnectivity::packet::Payload;
use oarlock_contracts::konnectivity::{DialRequest, Packet, ProxyService};
use oarlock_runtime::clock;
use oarlock_serving::answer::{Answer, text};
use oarlock_serving::listener::{Chain, Handler};
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tonic::{Response, Status, Streaming};

use super::connection::Connection;
use super::{Server, grpc, http_connect};
use crate::limits::{CLOSE_TIMEOUT, FRONTEND_DIAL_TIMEOUT};
use crate::link::{Link, ONE_CONNECTION, link};
use crate::metrics::{FAMILIES, Segment};
use crate::packet;

/// The protocol of a frontends' port (upstream `--mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// gRPC, one stream a connection.
    Grpc,
    /// HTTP `CONNECT`.
    HttpConnect,
    /// Both: requests tell which.
    Any,
}

/// The text is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode {0:?}: must be grpc or http-connect")]
pub struct ParseModeError(String);

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        match text {
            "grpc" => Ok(Self::Grpc),
            "http-connect" => Ok(Self::HttpConnect),
            _ => Err(ParseModeError(text.to_owned())),
        }
    }
}

/// The handler of a frontends' port.
#[derive(Clone, Debug)]
pub(super) struct FrontendPort {
    pub(super) server: Server,
    pub(super) mode: Mode,
}

impl Handler for FrontendPort {
    type Peer = ();

    fn peer(&self, _: Option<Chain>) {}

    fn keep_alive(&self) -> Duration {
        self.server.inner.options.keepalive
    }

    async fn answer(&self, (): &(), request: Request<Incoming>) -> Answer {
        if request.method() == Method::CONNECT {
            return match self.mode {
                Mode::HttpConnect | Mode::Any => http_connect::answer(&self.server, request).await,
                Mode::Grpc => text(405, "this port speaks gRPC and no HTTP CONNECT"),
            };
        }
        if self.mode == Mode::HttpConnect || request.uri().path() != ProxyService::PROXY.path() {
            return grpc::unknown();
        }
        let server = self.server.clone();
        let method = Box::new(move |request: tonic::Request<Streaming<Packet>>| -> grpc::Answered {
            let opened = open(&server, Received(request.into_inner()));
            Box::pin(async move { opened })
        });
        grpc::serve(method, request).await
    }
}

/// Serves a frontend's stream in a task. Returns the packets that the frontend gets.
fn open(server: &Server, packets: Received) -> Result<Response<grpc::Packets>, Status> {
    let (link, outbound) = link(Segment::TO_CLIENT, ONE_CONNECTION);
    let (server, gate) = (server.clone(), server.inner.gate.clone());
    let stop = gate.token();
    let serve = async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = proxy(&server, packets, &link) => {}
            // A frontend that has left may still have sent something.
            () = async { link.ended().await; clock::sleep(CLOSE_TIMEOUT).await } => {}
        }
    };
    gate.spawn("proxy", serve).map_err(|_| Status::unavailable("the server stops"))?;
    Ok(grpc::answer(outbound))
}

/// Packets from a frontend.
struct Received(Streaming<Packet>);

impl Received {
    /// Waits for the next packet of a known type; `None` after the last one, and when the frontend is lost.
    async fn next(&mut self) -> Option<Payload> {
        loop {
            let received = self.0.message().await.inspect_err(|status| tracing::debug!(%status, "frontend lost"));
            let packet = received.ok().flatten()?;
            Segment::FROM_CLIENT.packet(&packet);
            if let Some(payload) = packet::payload(packet) {
                return Some(payload);
            }
        }
    }
}

/// Carries the one connection of a frontend's stream.
async fn proxy(server: &Server, mut packets: Received, link: &Link) {
    let _counted = FAMILIES.grpc_connection("Proxy");
    let Ok(Some(request)) = clock::timeout(FRONTEND_DIAL_TIMEOUT, dial_request(&mut packets, link)).await else {
        return;
    };
    let random = request.random;
    if request.protocol != packet::TCP {
        return link.control(packet::dial_failed(random, format!("protocol {:?} is not supported", request.protocol)));
    }
    let dialled = tokio::select! {
        dialled = server.dial(&request.address, clock::after(FRONTEND_DIAL_TIMEOUT)) => dialled,
        // The frontend has withdrawn the dial, or is lost. Anything else before the answer is a breach of the protocol.
        _ = packets.next() => return link.control(packet::close_dial(random)),
    };
    match dialled {
        Ok(stream) => {
            link.control(packet::dialled(random, stream.connect_id()));
            carry(stream, packets, link).await;
        }
        Err(error) => link.control(packet::dial_failed(random, error.to_string())),
    }
}

/// Waits for the packet that asks for a connection. Packets of connections that the stream does not have are answered.
async fn dial_request(packets: &mut Received, link: &Link) -> Option<DialRequest> {
    loop {
        match packets.next().await? {
            Payload::DialRequest(request) => return Some(request),
            Payload::CloseRequest(close) => link.control(packet::closed(close.connect_id, "unknown connection")),
            Payload::Data(data) => link.control(packet::closed(data.connect_id, "unknown connection")),
            _ => {}
        }
    }
}

/// Carries bytes both ways, until the destination has closed the connection, it breaks, or the frontend is lost.
async fn carry(stream: Connection, packets: Received, link: &Link) {
    let (id, broken) = (stream.connect_id(), stream.broken());
    let stream = Mutex::new(stream);
    let down = async {
        loop {
            let chunk = match poll_fn(|context| stream.lock().poll_chunk(context)).await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return link.control(packet::closed(id, error.to_string())),
                None => break,
            };
            if link.deliver(packet::data(id, chunk)).await.is_err() {
                return link.end();
            }
        }
        if link.deliver(packet::closed(id, "")).await.is_err() {
            link.end();
        }
    };
    tokio::select! {
        biased;
        () = down => {}
        error = broken => link.control(packet::closed(id, error.to_string())),
        error = up(&stream, packets, id) => {
            if let Some(error) = error {
                link.control(packet::closed(id, error));
            }
        }
    }
}

/// Carries the frontend's bytes to the destination. Returns when the connection must end, with the text of an error that the frontend gets.
async fn up(stream: &Mutex<Connection>, mut packets: Received, id: i64) -> Option<&'static str> {
    let (mut stream, mut close_received) = (Shared(stream), false);
    loop {
        let written = match packets.next().await? {
            Payload::Data(data) if data.connect_id == id => match stream.write_all(&data.data).await {
                Ok(()) => stream.flush().await,
                failed => failed,
            },
            Payload::CloseRequest(close) if close.connect_id == id => {
                if std::mem::replace(&mut close_received, true) {
                    return None;
                }
                stream.shutdown().await
            }
            Payload::Data(_) | Payload::CloseRequest(_) => return Some("mismatched connection IDs"),
            Payload::DialRequest(_) => return Some("a stream has one connection"),
            _ => Ok(()),
        };
        if written.is_err() {
            // The connection has ended, which the other direction reports.
            std::future::pending::<()>().await;
        }
    }
}

/// The writing half of a stream.
struct Shared<'a>(&'a Mutex<Connection>);

impl AsyncWrite for Shared<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(context)
    }
}
