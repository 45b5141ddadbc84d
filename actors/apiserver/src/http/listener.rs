//! The HTTPS listener: one actor that accepts, one gated task per connection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use oarlock_auth::PeerCertificates;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::coalesce::Coalesce;
use super::service;
use crate::server::Server;
use crate::streaming::Remote;

/// The listener's row: it stops taking connections before the pipeline behind it goes.
pub static LISTENER: ActorKind = ActorKind { name: "apiserver.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// A client has this long for its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An HTTP/2 connection on which nothing came for this long is pinged.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Informers share one connection: streams per connection (upstream's default is 250).
const STREAMS: u32 = 1000;
/// Connections already open have this long to finish their requests when the listener stops.
const DRAIN: Duration = Duration::from_secs(8);

/// Accepts connections until the actor is stopped.
///
/// # Errors
/// When the socket fails.
pub async fn run(ctx: LoopCtx, socket: Arc<TcpListener>, tls: TlsAcceptor, server: Server) -> Result<(), Failure> {
    while let Some(accepted) = ctx.or_stop(socket.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither is the listener's end.
                tracing::warn!(%error, "connection not accepted");
                ctx.sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let (tls, server, ctx2) = (tls.clone(), server.clone(), ctx.clone());
        if ctx.spawn("connection", async move { connection(&ctx2, stream, tls, server).await }).is_err() {
            break;
        }
    }
    // Balancers look at readyz while open connections drain.
    server.state().set_stopping();
    Ok(())
}

async fn connection(ctx: &LoopCtx, stream: TcpStream, tls: TlsAcceptor, server: Server) {
    let _ = stream.set_nodelay(true);
    let Ok(remote) = stream.peer_addr().map(Remote) else { return };
    let stream = match clock::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "tls handshake failed"),
        Err(_) => return tracing::debug!("tls handshake took too long"),
    };
    let chain =
        stream.get_ref().1.peer_certificates().map(|chain| chain.iter().map(|c| c.clone().into_owned()).collect());
    let peer = chain.and_then(PeerCertificates::new).map(Arc::new);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (server, peer) = (server.clone(), peer.clone());
        request.extensions_mut().insert(remote);
        async move { Ok::<_, std::convert::Infallible>(service::serve(&server, peer.as_deref(), request).await) }
    });
    // What was agreed on decides, not the first bytes: a client without ALPN speaks HTTP/1.1.
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(KEEP_ALIVE)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let connection = builder.serve_connection(TokioIo::new(Coalesce::new(stream)), service);
        drive(ctx, connection, |connection| connection.graceful_shutdown()).await;
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        drive(ctx, connection, |connection| connection.graceful_shutdown()).await;
    }
}

/// Drives a connection to its end, which `close` begins when the listener stops.
async fn drive<C>(ctx: &LoopCtx, connection: C, close: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return closed(result),
        () = ctx.cancelled() => close(connection.as_mut()),
    }
    if let Ok(result) = clock::timeout(DRAIN, connection).await {
        closed(result);
    }
}

fn closed(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
