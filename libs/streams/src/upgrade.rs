//! Upgraded HTTP/1.1 connections: recognizes, requests and takes over upgrades, and joins two connections.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::{Io, LINGER, MAX_CHUNK};

/// Whether a request asks to switch its connection to another protocol (upstream `httpstream.IsUpgradeRequest`).
#[must_use]
pub fn wanted(headers: &HeaderMap) -> bool {
    contains(headers, CONNECTION, "upgrade")
}

/// Whether an answer switches the connection to `protocol`.
#[must_use]
pub fn granted<B>(response: &Response<B>, protocol: &str) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        && wanted(response.headers())
        && contains(response.headers(), UPGRADE, &protocol.to_ascii_lowercase())
}

fn contains(headers: &HeaderMap, name: http::HeaderName, what: &str) -> bool {
    headers.get_all(name).iter().any(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase().contains(what))
}

/// Sends one HTTP/1.1 request on a fresh connection. The second future drives the connection; the caller must run this future until the answer's body has been
/// read, or until [`hyper::upgrade::on`] has taken the connection out of the answer.
///
/// # Errors
/// When the connection cannot be used. Errors of the request itself come from the future of the answer.
pub async fn send<B>(
    io: impl Io,
    request: Request<B>,
) -> hyper::Result<(impl Future<Output = hyper::Result<Response<Incoming>>> + Send, impl Future<Output = ()> + Send)>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::Builder::new().handshake(TokioIo::new(io)).await?;
    let carry = async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection ended");
        }
    };
    let answer = async move { sender.send_request(request).await };
    Ok((answer, carry))
}

/// The byte connection of an upgraded request or answer.
pub type Connection = TokioIo<Upgraded>;

/// Takes the connection out of a message: a request that is answered with 101, or a 101 answer.
///
/// # Errors
/// When the other side closed the connection instead.
pub async fn take(upgrade: OnUpgrade) -> hyper::Result<Connection> {
    upgrade.await.map(TokioIo::new)
}

/// Carries bytes both ways. After one direction has ended, the other gets 10 s to finish; then both ends are closed.
pub async fn join(one: impl Io, other: impl Io) {
    let (one_read, mut one_write) = tokio::io::split(one);
    let (other_read, mut other_write) = tokio::io::split(other);
    let mut there = std::pin::pin!(copy(one_read, &mut other_write));
    let mut back = std::pin::pin!(copy(other_read, &mut one_write));
    tokio::select! {
        () = &mut there => after(back).await,
        () = &mut back => after(there).await,
    }
}

/// Runs the open direction for at most [`LINGER`] after the other direction has ended.
pub(crate) async fn after(work: impl Future<Output = ()>) {
    // The peer knows from the end of the first direction that the connection is ending; later data is dropped.
    let _ = tokio::time::timeout(LINGER, work).await;
}

/// Carries bytes one way, then the end of the stream.
async fn copy(read: impl AsyncRead + Unpin, write: &mut (impl AsyncWrite + Unpin)) {
    if let Err(error) = tokio::io::copy_buf(&mut BufReader::with_capacity(MAX_CHUNK, read), write).await {
        tracing::debug!(%error, "stream ended");
    }
    // The peer may have disconnected already.
    let _ = write.shutdown().await;
}
