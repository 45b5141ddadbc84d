//! Upgraded HTTP/1.1 connections.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::{CHUNK, Io, LINGER};

/// Whether a request wants its connection for another protocol (upstream `httpstream.IsUpgradeRequest`).
#[must_use]
pub fn wanted(headers: &HeaderMap) -> bool {
    contains(headers, CONNECTION, "upgrade")
}

/// Whether an answer gives the connection away to `protocol`.
#[must_use]
pub fn granted<B>(response: &Response<B>, protocol: &str) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        && wanted(response.headers())
        && contains(response.headers(), UPGRADE, &protocol.to_ascii_lowercase())
}

fn contains(headers: &HeaderMap, name: http::HeaderName, what: &str) -> bool {
    headers.get_all(name).iter().any(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase().contains(what))
}

/// Sends one HTTP/1.1 request on a fresh connection. The second future carries the connection; it must run until the answer's body has been
/// read, or until [`hyper::upgrade::on`] has taken the connection out of the answer.
///
/// # Errors
/// When the connection cannot be used. The future of the answer says what happens to the request.
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

/// The connection of an upgraded request or answer, for bytes.
pub type Connection = TokioIo<Upgraded>;

/// Takes the connection out of a message: a request that is answered with 101, or an answer 101.
///
/// # Errors
/// When the other side hung up instead.
pub async fn take(upgrade: OnUpgrade) -> hyper::Result<Connection> {
    upgrade.await.map(TokioIo::new)
}

/// Carries bytes both ways until one side is done and the other one had a moment to finish, then ends both.
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

/// Goes on with one direction when the other one is over.
pub(crate) async fn after(work: impl Future<Output = ()>) {
    // Whoever takes longer was told that it is over and does without the rest.
    let _ = tokio::time::timeout(LINGER, work).await;
}

/// Carries bytes one way, and their end.
async fn copy(read: impl AsyncRead + Unpin, write: &mut (impl AsyncWrite + Unpin)) {
    if let Err(error) = tokio::io::copy_buf(&mut BufReader::with_capacity(CHUNK, read), write).await {
        tracing::debug!(%error, "stream ended");
    }
    // It may be gone already.
    let _ = write.shutdown().await;
}
