//! HTTP `CONNECT` at the frontends' port (upstream's mode `http-connect`).

use std::io;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use oarlock_runtime::clock;
use oarlock_serving::answer::{Answer, text};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::Server;
use super::connection::Connection;
use crate::error::DialError;
use crate::limits::{FRONTEND_DIAL_TIMEOUT, MAX_DATA};
use crate::metrics::{Counted, FAMILIES};

/// Dials the request's authority. The answer is 200, after which the connection carries bytes, or the reason why it cannot.
pub(super) async fn answer(server: &Server, request: Request<Incoming>) -> Answer {
    let dialled = server.dial(&address(&request), clock::after(FRONTEND_DIAL_TIMEOUT)).await;
    accept(server, request, dialled, None)
}

/// Returns the address that a request asks for.
pub(super) fn address(request: &Request<Incoming>) -> String {
    request.uri().authority().map(ToString::to_string).unwrap_or_default()
}

/// Answers a request whose address was dialled, and carries the bytes in a task, which holds `place`.
pub(super) fn accept(
    server: &Server,
    mut request: Request<Incoming>,
    dialled: Result<Connection, DialError>,
    place: Option<OwnedSemaphorePermit>,
) -> Answer {
    let stream = match dialled {
        Ok(stream) => stream,
        Err(error) => return text(error.http_code(), error.to_string()),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let stop = server.inner.gate.token();
    let carried = async move {
        let _held = (Counted::new(&FAMILIES.http_connections), place);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            upgraded = upgrade => match upgraded {
                Ok(upgraded) => joined(upgraded, stream).await,
                Err(error) => tracing::debug!(%error, "frontend lost"),
            },
        }
    };
    if server.inner.gate.spawn("connect", carried).is_err() {
        return text(503, "the server stops");
    }
    Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync())
}

/// Joins a frontend's connection with one of the tunnel. When the latter breaks, the frontend's connection is reset, so that no part passes for the whole.
async fn joined(upgraded: Upgraded, stream: Connection) {
    let mut io = TokioIo::new(upgraded);
    let Err(error) = carry(&mut io, stream).await else { return };
    tracing::debug!(%error, "connection broken");
    // Over TLS the missing end of the session says the same.
    if let Ok(plain) = downcast::<TokioIo<TcpStream>>(io.into_inner())
        && let Err(error) = plain.io.inner().set_zero_linger()
    {
        tracing::debug!(%error, "connection closed instead of reset");
    }
}

/// Carries bytes both ways, until the destination has closed the connection or either side breaks.
async fn carry(io: &mut (impl AsyncRead + AsyncWrite + Unpin), stream: Connection) -> io::Result<()> {
    let broken = stream.broken();
    let (mut from_client, mut to_client) = tokio::io::split(io);
    let (mut from_tunnel, mut to_tunnel) = tokio::io::split(stream);
    let up = async {
        copy(&mut from_client, &mut to_tunnel).await?;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        biased;
        ended = copy(&mut from_tunnel, &mut to_client) => ended,
        error = broken => Err(error),
        ended = up => ended,
    }
}

/// Carries bytes one way, then the end of the stream. Bytes are flushed before the next ones are waited for: a TLS stream keeps what its socket had no room for.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    tokio::io::copy_buf(&mut BufReader::with_capacity(MAX_DATA, from), to).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use oarlock_testkit::wait;
    use tokio::io::{AsyncReadExt as _, BufWriter};

    use super::*;

    #[tokio::test]
    async fn bytes_arrive_although_no_more_follow() {
        let ((mut near, mut from), (to, mut far)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        near.write_all(b"all").await.unwrap();
        let (mut to, mut read) = (BufWriter::new(to), [0; 3]);
        tokio::select! {
            ended = copy(&mut from, &mut to) => panic!("{ended:?}"),
            arrived = wait::step("the bytes", far.read_exact(&mut read)) => assert_eq!(arrived.unwrap(), 3),
        }
        assert_eq!(&read, b"all");
    }
}
