//! The listener: an actor that accepts a bounded number of HTTP connections, each served by a gated task.

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
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::busy::Busy;

/// The time for a TLS handshake, and for the head of a request; over HTTP/1.1 also for the next request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time without a request after which a connection is closed (upstream: 90 s).
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The time without data after which an HTTP/2 connection is pinged.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// The time that open connections have to finish their requests when the listener stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failure to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The certificate chain that a client has presented, leaf first.
pub type Chain = Arc<[CertificateDer<'static>]>;

/// The handler of a listener's requests.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The identity of a connection's client.
    type Peer: Clone + Send + Sync + 'static;

    /// Returns the identity of a client that has presented these certificates; `chain` is `None` without TLS.
    fn peer(&self, chain: Option<Chain>) -> Self::Peer;

    /// Answers a request.
    fn answer(&self, peer: &Self::Peer, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;

    /// The time without data after which an HTTP/2 connection is pinged. A client that leaves a ping unanswered for 20 s is lost.
    fn keep_alive(&self) -> Duration {
        KEEP_ALIVE_INTERVAL
    }
}

/// A bound socket that HTTP connections are accepted on.
pub enum Socket {
    /// TCP, with TLS if an acceptor is given.
    Tcp(TcpListener, Option<TlsAcceptor>),
    /// A Unix socket.
    Unix(UnixListener),
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(socket, tls) => f.debug_tuple("Tcp").field(socket).field(&tls.is_some()).finish(),
            Self::Unix(socket) => f.debug_tuple("Unix").field(socket).finish(),
        }
    }
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream, Option<TlsAcceptor>),
    Unix(UnixStream),
}

impl Socket {
    /// The name of the listener's actor.
    fn name(&self) -> std::io::Result<String> {
        Ok(match self {
            Self::Tcp(socket, _) => socket.local_addr()?.to_string(),
            Self::Unix(socket) => {
                socket.local_addr()?.as_pathname().map_or_else(String::new, |path| path.display().to_string())
            }
        })
    }

    async fn accept(&self) -> std::io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(socket, tls) => Accepted::Tcp(socket.accept().await?.0, tls.clone()),
            Self::Unix(socket) => Accepted::Unix(socket.accept().await?.0),
        })
    }
}

/// Serves on a bound socket, over TLS if `tls` is given. At most `max_connections` connections are served concurrently; further ones wait in the kernel's
/// backlog. Returns the socket's address.
///
/// # Errors
/// When the socket has no address, or the runtime refuses the actor.
pub async fn listen<H: Handler>(
    system: &System,
    kind: &'static ActorKind,
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    max_connections: usize,
    handler: H,
) -> Result<SocketAddr, oarlock_runtime::Error> {
    let address = socket.local_addr().map_err(|error| no_address(kind, &error))?;
    listen_on(system, kind, Socket::Tcp(socket, tls), max_connections, handler).await?;
    Ok(address)
}

/// Serves on a bound socket of any kind, as [`listen`] does.
///
/// # Errors
/// Those of [`listen`].
pub async fn listen_on<H: Handler>(
    system: &System,
    kind: &'static ActorKind,
    socket: Socket,
    max_connections: usize,
    handler: H,
) -> Result<(), oarlock_runtime::Error> {
    let name = socket.name().map_err(|error| no_address(kind, &error))?;
    let (socket, room) = (Arc::new(socket), Arc::new(Semaphore::new(max_connections)));
    let run = move |ctx| run(ctx, Arc::clone(&socket), Arc::clone(&room), handler.clone());
    system.spawn_loop(kind, name, run).await?;
    Ok(())
}

fn no_address(kind: &ActorKind, error: &std::io::Error) -> oarlock_runtime::Error {
    oarlock_runtime::Error::Spawn { name: kind.name.to_owned(), reason: error.to_string() }
}

async fn run<H: Handler>(ctx: LoopCtx, socket: Arc<Socket>, room: Arc<Semaphore>, handler: H) -> Result<(), Failure> {
    loop {
        let next = async { (Arc::clone(&room).acquire_owned().await, socket.accept().await) };
        let Some((place, accepted)) = ctx.or_stop(next).await else { return Ok(()) };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or the client has disconnected: the listener continues after either.
                tracing::warn!(%error, "connection not accepted");
                ctx.sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        let (handler, stop) = (handler.clone(), ctx.token());
        let served = async move {
            match accepted {
                Accepted::Tcp(stream, tls) => accepted_one(handler, stop, stream, tls).await,
                Accepted::Unix(stream) => {
                    let peer = handler.peer(None);
                    connection(handler, stop, stream, peer).await;
                }
            }
            drop(place);
        };
        if ctx.spawn("connection", served).is_err() {
            return Ok(());
        }
    }
}

async fn accepted_one<H: Handler>(handler: H, stop: CancellationToken, stream: TcpStream, tls: Option<TlsAcceptor>) {
    // TCP_NODELAY only saves latency; a failure is harmless.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        let peer = handler.peer(None);
        return connection(handler, stop, stream, peer).await;
    };
    let stream = match clock::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
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
    let (busy, keep_alive) = (Busy::default(), handler.keep_alive());
    let counting = busy.clone();
    let service = service_fn(move |request| {
        let (handler, peer, request_guard) = (handler.clone(), peer.clone(), counting.enter());
        async move {
            let answer = handler.answer(&peer, request).await;
            Ok::<_, std::convert::Infallible>(answer.map(|body| request_guard.until_sent(body)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(keep_alive);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return ended(result),
        () = stop.cancelled() => {}
        () = busy.idle(IDLE_TIMEOUT) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(result) = clock::timeout(DRAIN_TIMEOUT, connection).await {
        ended(result);
    }
}

fn ended(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
