//! The HTTPS listener: one actor that accepts connections, and one gated task per connection.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use oarlock_auth::PeerCertificates;
use oarlock_runtime::{ActorKind, Failure, Gate, LoopCtx, Phase, clock, rng};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::backlog::Backlog;
use super::coalesce::Coalesce;
use super::service;
use super::unauthenticated::{UnauthenticatedConnection, UnauthenticatedConnections};
use super::unread::connection::ConnectionAnswers;
use crate::server::Server;
use crate::streaming::Remote;

/// The listener actor. It stops before the request pipeline does.
pub static LISTENER: ActorKind = ActorKind { name: "apiserver.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time after which an HTTP/2 connection is pinged.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the answer to such a ping. A client that reads nothing any more does not answer it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of streams that a client may have reset before the server has begun with them (CVE-2023-44487). Then the connection is ended.
const MAX_RESET_STREAMS: usize = 20;
/// Maximum number of streams of a connection that the server resets because of the client's errors. Then the connection is ended.
const MAX_STREAM_ERRORS: usize = 1024;
/// Maximum number of bytes of the head of an HTTP/2 request: as much as a URL may have (64 KiB), and 16 KiB for all headers.
const MAX_HEAD_BYTES: u32 = 80 << 10;
/// Maximum number of concurrent streams per HTTP/2 connection (upstream's default is 250): all informers of a client share one connection.
const MAX_STREAMS: u32 = 1000;
/// At shutdown, how long a connection without a request may still send its first one (Go: 5 s). The client has probably just connected to send it.
const FIRST_REQUEST_WAIT: Duration = Duration::from_secs(1);

/// The listening socket, open until the server shuts down. Clones share the socket.
#[derive(Clone, Debug)]
pub struct Socket(Arc<Mutex<Option<Arc<TcpListener>>>>);

impl Socket {
    /// Wraps a bound, listening socket.
    #[must_use]
    pub fn new(socket: TcpListener) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::new(socket)))))
    }

    fn get(&self) -> Option<Arc<TcpListener>> {
        self.0.lock().clone()
    }
}

/// Accepts connections until the actor is stopped, then shuts them down ([`crate::termination`]).
///
/// # Errors
/// When the socket fails.
pub async fn run(ctx: LoopCtx, socket: Socket, tls: TlsAcceptor, server: Server) -> Result<(), Failure> {
    // A closed socket is not opened again: the process is shutting down.
    let Some(listening) = socket.get() else { return Ok(()) };
    let acceptor = Acceptor {
        ctx: ctx.clone(),
        tls,
        server: server.clone(),
        unauthenticated: UnauthenticatedConnections::default(),
    };
    while let Some(accepted) = ctx.or_stop(listening.accept()).await {
        acceptor.admit(accepted).await;
    }
    let patience = server.config().request_timeout;
    let termination = server.config().termination;
    let (began, watches) = (clock::now(), server.state().watches());
    server.state().end_watches(termination.spread(watches));
    if termination.send_retry_after {
        server.state().set_refusing();
        let done = async {
            server.state().requests_done().await;
            while server.state().watches() > 0 {
                clock::sleep(POLL_INTERVAL).await;
            }
        };
        let patience = clock::after(patience + termination.watches);
        let serving = async {
            loop {
                acceptor.admit(listening.accept().await).await;
            }
        };
        ctx.protected(async {
            tokio::select! {
                biased;
                _ = clock::timeout_at(patience, done) => {}
                () = serving => {}
            }
        })
        .await;
        tracing::info!(took = ?began.elapsed(), "refused: what was under way is done");
    }
    let mut backlog = Backlog::new(&listening);
    while let Some(accepted) = backlog.next().await {
        acceptor.admit(accepted).await;
    }
    *socket.0.lock() = None;
    drop(listening);
    let (began, connections) = (clock::now(), ctx.gate().inside());
    let closed = ctx.protected(ctx.gate().close(patience + termination.watches)).await;
    let late = closed.err().map(|late| late.holders.len()).unwrap_or_default();
    tracing::info!(connections, watches, late, took = ?began.elapsed(), "closed");
    Ok(())
}

/// The interval at which remaining watches are counted.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Admits accepted connections within the limits, and serves each in a task of its own.
struct Acceptor {
    ctx: LoopCtx,
    tls: TlsAcceptor,
    server: Server,
    unauthenticated: UnauthenticatedConnections,
}

impl Acceptor {
    /// Serves an accepted connection, or closes it when a limit is reached.
    async fn admit(&self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, from)) => {
                // At the limit, open connections continue. The new one is closed at once, so that its client need not wait for a free place.
                let (most, open) = (self.server.config().limits.connections, self.ctx.gate().inside());
                if most > 0 && open >= most {
                    crate::metrics::connection_refused();
                    tracing::debug!(%from, open, "connection refused: there are as many as --max-connections allows");
                    return;
                }
                let Some(unauthenticated) = self.unauthenticated.enter(from.ip(), most) else {
                    crate::metrics::connection_refused();
                    tracing::debug!(%from, "connection refused: too many from its address have not authenticated");
                    return;
                };
                let (tls, server, gate) = (self.tls.clone(), self.server.clone(), self.ctx.gate().clone());
                // The gate is open as long as the acceptor exists.
                let _ = self
                    .ctx
                    .spawn("connection", async move { connection(&gate, stream, unauthenticated, tls, server).await });
            }
            Err(error) => {
                // Out of file descriptors, or a client that disconnected: neither ends the listener.
                tracing::warn!(%error, "connection not accepted");
                clock::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Serves one connection: TLS handshake, then HTTP/2 or HTTP/1.1.
async fn connection(
    gate: &Gate,
    stream: TcpStream,
    unauthenticated: UnauthenticatedConnection,
    tls: TlsAcceptor,
    server: Server,
) {
    let patience = server.config().request_timeout;
    let _ = stream.set_nodelay(true);
    let Ok(remote) = stream.peer_addr().map(Remote) else { return };
    let handshake = tokio::select! {
        biased;
        handshake = clock::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)) => handshake,
        () = first_request_overdue(gate) => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "tls handshake failed"),
        Err(_) => return tracing::debug!("tls handshake took too long"),
    };
    let chain =
        stream.get_ref().1.peer_certificates().map(|chain| chain.iter().map(|c| c.clone().into_owned()).collect());
    let peer = chain.and_then(PeerCertificates::new);
    // The negotiated protocol decides, not the first bytes: a client without ALPN speaks HTTP/1.1.
    let multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let signals = Arc::new(RequestSignals::default());
    let request_signals = Arc::clone(&signals);
    let shared = service::Connection { peer, remote, unauthenticated, answers: ConnectionAnswers::default() };
    let shared = Arc::new(shared);
    let of_requests = Arc::clone(&shared);
    let service = service_fn(move |request: Request<Incoming>| {
        request_signals.first.notify_one();
        if multiplexed && (server.state().is_refusing() || occurs(server.config().goaway_chance)) {
            request_signals.goaway.notify_one();
        }
        let (server, connection) = (server.clone(), Arc::clone(&of_requests));
        // Boxed, so that the future's memory is freed when the answer begins. A stream of HTTP/2 would hold it as long as its watch runs.
        Box::pin(async move { Ok::<_, std::convert::Infallible>(service::serve(&server, &connection, request).await) })
    });
    if multiplexed {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(MAX_STREAM_ERRORS)
            .max_header_list_size(MAX_HEAD_BYTES)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let connection = builder.serve_connection(TokioIo::new(Coalesce::new(stream)), service);
        let closing = async {
            tokio::select! {
                biased;
                () = gate.cancelled() => {}
                () = signals.goaway.notified() => {}
                () = shared.unauthenticated.overdue(Duration::ZERO) => {}
            }
        };
        tokio::select! {
            biased;
            () = drive(closing, connection, |connection| connection.graceful_shutdown()) => {}
            // The client has got a GOAWAY, and the requests that it may have begun before have had their time.
            () = shared.unauthenticated.overdue(patience) => tracing::debug!("connection ended: no request was authenticated"),
            () = shared.answers.overdue(patience) => tracing::debug!("connection ended: an answer was not read"),
        }
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let closing = async {
            gate.cancelled().await;
            // Returns at once if a request has come before: the notification is kept until it is awaited.
            let _ = clock::timeout(FIRST_REQUEST_WAIT, signals.first.notified()).await;
        };
        tokio::select! {
            biased;
            () = drive(closing, connection, |connection| connection.graceful_shutdown()) => {}
            () = shared.answers.overdue(patience) => tracing::debug!("connection ended: an answer was not read"),
        }
    }
}

/// Waits until a connection without a request must close: [`FIRST_REQUEST_WAIT`] after the gate is cancelled.
async fn first_request_overdue(gate: &Gate) {
    gate.cancelled().await;
    clock::sleep(FIRST_REQUEST_WAIT).await;
}

/// Signals from the requests of a connection to the driver of the connection.
#[derive(Default)]
struct RequestSignals {
    first: Notify,
    goaway: Notify,
}

/// Draws a random number and returns whether an event with the probability `chance` occurs.
fn occurs(chance: f64) -> bool {
    const STEPS: u32 = 1 << 24;
    chance > 0.0 && (rng::below(STEPS.into()) as f64) < chance * f64::from(STEPS)
}

/// Drives a connection to its end. After `closing` resolves, `close` begins the shutdown of the connection; its open streams still run to their end.
async fn drive<C>(closing: impl Future<Output = ()>, connection: C, close: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return closed(result),
        () = closing => close(connection.as_mut()),
    }
    closed(connection.await);
}

fn closed(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
