//! HTTP `CONNECT` at the frontends' port (upstream's mode `http-connect`).

use std::future::poll_fn;
use std::io;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use oarlock_runtime::clock;
use oarlock_serving::answer::{Answer, text};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Server;
use super::stream::TunnelStream;
use crate::limits::{FRONTEND_DIAL_TIMEOUT, MAX_DATA};
use crate::metrics::{Counted, FAMILIES};

/// Dials the request's authority. The answer is 200, after which the connection carries bytes, or the reason why it cannot.
pub(super) async fn answer(server: &Server, mut request: Request<Incoming>) -> Answer {
    let address = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let stream = match server.dial(&address, clock::after(FRONTEND_DIAL_TIMEOUT)).await {
        Ok(stream) => stream,
        Err(error) => return text(error.http_code(), error.to_string()),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let stop = server.inner.gate.token();
    let carried = async move {
        let _counted = Counted::new(&FAMILIES.http_connections);
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
async fn joined(upgraded: Upgraded, stream: TunnelStream) {
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
async fn carry(io: &mut (impl AsyncRead + AsyncWrite + Unpin), stream: TunnelStream) -> io::Result<()> {
    let inbound = stream.inbound();
    let (mut from_client, mut to_client) = tokio::io::split(io);
    let (mut from_tunnel, mut to_tunnel) = tokio::io::split(stream);
    let up = async {
        copy(&mut from_client, &mut to_tunnel).await?;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        biased;
        ended = copy(&mut from_tunnel, &mut to_client) => ended,
        error = poll_fn(|context| inbound.poll_broken(context)) => Err(error),
        ended = up => ended,
    }
}

/// Carries bytes one way, then the end of the stream.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; MAX_DATA];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
    }
}
