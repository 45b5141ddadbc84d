//! A listener: an actor that accepts, one gated task per connection, so many connections at most.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use oarlock_pki::CertificateDer;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, System, clock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::busy::Busy;

/// A client has this long for its TLS handshake, and for the head of a request; over HTTP/1.1 also for the next one.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection on which nothing was asked for so long is closed (upstream: 90 s).
const IDLE: Duration = Duration::from_secs(90);
/// An HTTP/2 connection on which nothing came for this long is pinged.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Connections already open have this long to finish their requests when the listener stops.
const DRAIN: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// The certificates that a client has shown, its own first.
pub type Chain = Arc<[CertificateDer<'static>]>;

/// What answers requests.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Who is at the other end of a connection.
    type Peer: Clone + Send + Sync + 'static;

    /// Who has shown these certificates; none over plain HTTP.
    fn peer(&self, chain: Option<Chain>) -> Self::Peer;

    /// Answers a request.
    fn answer(&self, peer: &Self::Peer, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Serves on a bound socket, over TLS if `tls` is given: `most` connections at once, further ones wait in the kernel. Returns where it listens.
///
/// # Errors
/// When the socket has no address, or the runtime refuses the actor.
pub async fn listen<H: Handler>(
    system: &System,
    kind: &'static ActorKind,
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    most: usize,
    handler: H,
) -> Result<SocketAddr, oarlock_runtime::Error> {
    let spawn =
        |error: std::io::Error| oarlock_runtime::Error::Spawn { name: kind.name.to_owned(), reason: error.to_string() };
    let address = socket.local_addr().map_err(spawn)?;
    let (socket, room) = (Arc::new(socket), Arc::new(Semaphore::new(most)));
    let run = move |ctx| run(ctx, Arc::clone(&socket), Arc::clone(&room), tls.clone(), handler.clone());
    system.spawn_loop(kind, address.to_string(), run).await?;
    Ok(address)
}

async fn run<H: Handler>(
    ctx: LoopCtx,
    socket: Arc<TcpListener>,
    room: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
    handler: H,
) -> Result<(), Failure> {
    loop {
        let next = async { (Arc::clone(&room).acquire_owned().await, socket.accept().await) };
        let Some((place, accepted)) = ctx.or_stop(next).await else { return Ok(()) };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither is the listener's end.
                tracing::warn!(%error, "connection not accepted");
                ctx.sleep(PAUSE).await;
                continue;
            }
        };
        let (tls, handler, stop) = (tls.clone(), handler.clone(), ctx.token());
        let served = async move {
            accepted_one(handler, stop, stream, tls).await;
            drop(place);
        };
        if ctx.spawn("connection", served).is_err() {
            return Ok(());
        }
    }
}

async fn accepted_one<H: Handler>(handler: H, stop: CancellationToken, stream: TcpStream, tls: Option<TlsAcceptor>) {
    // Only a matter of speed.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        let peer = handler.peer(None);
        return connection(handler, stop, stream, peer).await;
    };
    let stream = match clock::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "tls handshake failed"),
        Err(_) => return tracing::debug!("tls handshake took too long"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
    let peer = handler.peer(Some(chain));
    connection(handler, stop, stream, peer).await;
}

/// Serves the requests of one connection until it ends, is idle, or `stop` is cancelled.
pub async fn connection<H: Handler>(
    handler: H,
    stop: CancellationToken,
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: H::Peer,
) {
    let busy = Busy::default();
    let counting = busy.clone();
    let service = service_fn(move |request| {
        let (handler, peer, request_in_hand) = (handler.clone(), peer.clone(), counting.enter());
        async move {
            let answer = handler.answer(&peer, request).await;
            Ok::<_, std::convert::Infallible>(answer.map(|body| request_in_hand.until_sent(body)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return ended(result),
        () = stop.cancelled() => {}
        () = busy.idle(IDLE) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(result) = clock::timeout(DRAIN, connection).await {
        ended(result);
    }
}

fn ended(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
