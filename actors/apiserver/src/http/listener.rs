//! The HTTPS listener: one actor that accepts, one gated task per connection.

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

use super::coalesce::Coalesce;
use super::newcomers::{Newcomer, Newcomers};
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
/// A connection over which no request has come yet has this long to bring one when the server closes (Go: 5 s): its client is just about to.
const FIRST: Duration = Duration::from_secs(1);

/// The listening socket, until the server ends. Clones share it.
#[derive(Clone, Debug)]
pub struct Socket(Arc<Mutex<Option<Arc<TcpListener>>>>);

impl Socket {
    /// A socket that listens.
    #[must_use]
    pub fn new(socket: TcpListener) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::new(socket)))))
    }

    fn get(&self) -> Option<Arc<TcpListener>> {
        self.0.lock().clone()
    }
}

/// Accepts connections until the actor is stopped, then ends them ([`crate::termination`]).
///
/// # Errors
/// When the socket fails.
pub async fn run(ctx: LoopCtx, socket: Socket, tls: TlsAcceptor, server: Server) -> Result<(), Failure> {
    // A socket that is closed is not opened again: the process is ending.
    let Some(listening) = socket.get() else { return Ok(()) };
    let door = Door { ctx: ctx.clone(), tls, server: server.clone(), newcomers: Newcomers::default() };
    while let Some(accepted) = ctx.or_stop(listening.accept()).await {
        door.admit(accepted).await;
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
                clock::sleep(LOOK_AGAIN).await;
            }
        };
        let patience = clock::after(patience + termination.watches);
        let serving = async {
            loop {
                door.admit(listening.accept().await).await;
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
    // Whoever stands in the queue has been let in by the kernel; closing would throw them out.
    let last = clock::after(QUEUE);
    while !last.passed()
        && let Ok(Ok(accepted)) = clock::timeout(LOOK_AGAIN, listening.accept()).await
    {
        door.admit(Ok(accepted)).await;
    }
    *socket.0.lock() = None;
    drop(listening);
    let (began, connections) = (clock::now(), ctx.gate().inside());
    let closed = ctx.protected(ctx.gate().close(patience + termination.watches)).await;
    let late = closed.err().map(|late| late.holders.len()).unwrap_or_default();
    tracing::info!(connections, watches, late, took = ?began.elapsed(), "closed");
    Ok(())
}

/// The queue of a socket that closes is emptied for no longer than this …
const QUEUE: Duration = Duration::from_millis(500);
/// … and is empty when nobody came for so long. Watches that are left are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where connections come in.
struct Door {
    ctx: LoopCtx,
    tls: TlsAcceptor,
    server: Server,
    newcomers: Newcomers,
}

impl Door {
    async fn admit(&self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, from)) => {
                // The open connections go on. The new one is closed at once, so that its client need not wait for a place.
                let (most, open) = (self.server.config().limits.connections, self.ctx.gate().inside());
                if most > 0 && open >= most {
                    crate::metrics::connection_refused();
                    tracing::debug!(%from, open, "connection refused: there are as many as --max-connections allows");
                    return;
                }
                let Some(newcomer) = self.newcomers.enter(from.ip(), most) else {
                    crate::metrics::connection_refused();
                    tracing::debug!(%from, "connection refused: too many from its address have not authenticated");
                    return;
                };
                let (tls, server, gate) = (self.tls.clone(), self.server.clone(), self.ctx.gate().clone());
                // The gate is open as long as there is a door.
                let _ =
                    self.ctx.spawn("connection", async move { connection(&gate, stream, newcomer, tls, server).await });
            }
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither is the listener's end.
                tracing::warn!(%error, "connection not accepted");
                clock::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn connection(gate: &Gate, stream: TcpStream, newcomer: Newcomer, tls: TlsAcceptor, server: Server) {
    let newcomer = Arc::new(newcomer);
    let patience = server.config().request_timeout;
    let _ = stream.set_nodelay(true);
    let Ok(remote) = stream.peer_addr().map(Remote) else { return };
    let shaken = tokio::select! {
        biased;
        shaken = clock::timeout(HANDSHAKE, tls.accept(stream)) => shaken,
        () = last_moment(gate) => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "tls handshake failed"),
        Err(_) => return tracing::debug!("tls handshake took too long"),
    };
    let chain =
        stream.get_ref().1.peer_certificates().map(|chain| chain.iter().map(|c| c.clone().into_owned()).collect());
    let peer = chain.and_then(PeerCertificates::new).map(Arc::new);
    // What was agreed on decides, not the first bytes: a client without ALPN speaks HTTP/1.1.
    let multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let signs = Arc::new(Signs::default());
    let (seen, whose) = (Arc::clone(&signs), Arc::clone(&newcomer));
    let service = service_fn(move |mut request: Request<Incoming>| {
        seen.first.notify_one();
        if multiplexed && (server.state().is_refusing() || strikes(server.config().goaway_chance)) {
            seen.goaway.notify_one();
        }
        let (server, peer) = (server.clone(), peer.clone());
        request.extensions_mut().insert(remote);
        request.extensions_mut().insert(Arc::clone(&whose));
        async move { Ok::<_, std::convert::Infallible>(service::serve(&server, peer.as_deref(), request).await) }
    });
    if multiplexed {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(KEEP_ALIVE)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let connection = builder.serve_connection(TokioIo::new(Coalesce::new(stream)), service);
        let closing = async {
            tokio::select! {
                biased;
                () = gate.cancelled() => {}
                () = signs.goaway.notified() => {}
                () = newcomer.overdue(Duration::ZERO) => {}
            }
        };
        tokio::select! {
            biased;
            () = drive(closing, connection, |connection| connection.graceful_shutdown()) => {}
            // It was asked to go, and what it may have begun before has had its time.
            () = newcomer.overdue(patience) => tracing::debug!("connection ended: nobody authenticated"),
        }
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let closing = async {
            gate.cancelled().await;
            // Also over when one has come long ago: the first sign stays until it is read.
            let _ = clock::timeout(FIRST, signs.first.notified()).await;
        };
        drive(closing, connection, |connection| connection.graceful_shutdown()).await;
    }
}

/// The end of the patience with those who have not asked for anything yet.
async fn last_moment(gate: &Gate) {
    gate.cancelled().await;
    clock::sleep(FIRST).await;
}

/// What requests tell the driver of their connection.
#[derive(Default)]
struct Signs {
    first: Notify,
    goaway: Notify,
}

/// Whether chance has it so.
fn strikes(chance: f64) -> bool {
    const STEPS: u32 = 1 << 24;
    chance > 0.0 && (rng::below(STEPS.into()) as f64) < chance * f64::from(STEPS)
}

/// Drives a connection to its end, which `close` begins after `closing`. Streams that are open then run on.
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
