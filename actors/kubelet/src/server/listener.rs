//! The listeners of the kubelet's server: an actor each that accepts, one gated task per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use oarlock_pki::tls::ServingCertificate;
use oarlock_pki::{ClientTrust, tls};
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_streams::Io;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{Peer, Server};

/// The listeners' row.
pub(crate) static LISTENER: ActorKind =
    ActorKind { name: "kubelet.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// A client has this long for its TLS handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections already open have this long to finish their requests when the listener stops.
const DRAIN: Duration = Duration::from_secs(5);

/// A listener could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] oarlock_pki::Error),
    /// The socket is unusable.
    #[error("kubelet's listener: {0}")]
    Socket(#[from] std::io::Error),
    /// The actor cannot be spawned.
    #[error("kubelet's listener")]
    Spawn(#[from] oarlock_runtime::Error),
}

impl Server {
    /// Serves HTTPS on a bound socket. Clients are asked for certificates of `clients`. Returns where it listens.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn listen(
        &self,
        socket: TcpListener,
        certificate: Arc<ServingCertificate>,
        clients: Option<&ClientTrust>,
    ) -> Result<SocketAddr, ListenError> {
        let tls = TlsAcceptor::from(Arc::new(tls::server_config(certificate, clients)?));
        self.spawn(socket, Some(tls)).await
    }

    /// Serves what may be shown to everybody, over plain HTTP (`--read-only-port`).
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn listen_read_only(&self, socket: TcpListener) -> Result<SocketAddr, ListenError> {
        self.spawn(socket, None).await
    }

    async fn spawn(&self, socket: TcpListener, tls: Option<TlsAcceptor>) -> Result<SocketAddr, ListenError> {
        let address = socket.local_addr()?;
        let (server, socket) = (self.clone(), Arc::new(socket));
        let run = move |ctx| run(ctx, Arc::clone(&socket), tls.clone(), server.clone());
        self.inner.system.spawn_loop(&LISTENER, address.to_string(), run).await?;
        Ok(address)
    }
}

async fn run(ctx: LoopCtx, socket: Arc<TcpListener>, tls: Option<TlsAcceptor>, server: Server) -> Result<(), Failure> {
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
        let (tls, server, stop) = (tls.clone(), server.clone(), ctx.token());
        if ctx.spawn("connection", accepted_one(server, stop, stream, tls)).is_err() {
            break;
        }
    }
    Ok(())
}

async fn accepted_one(server: Server, stop: CancellationToken, stream: TcpStream, tls: Option<TlsAcceptor>) {
    // Only a matter of speed.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return connection(server, stop, stream, Peer::Reader).await };
    let stream = match clock::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "tls handshake failed"),
        Err(_) => return tracing::debug!("tls handshake took too long"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::Outside(chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    connection(server, stop, stream, peer).await;
}

/// Serves the requests of one connection.
pub(super) async fn connection(server: Server, stop: CancellationToken, io: impl Io, peer: Peer) {
    let peer = Arc::new(peer);
    let service = service_fn(move |request| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, std::convert::Infallible>(server.answer(&peer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        result = connection.as_mut() => return ended(result),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    if let Ok(result) = clock::timeout(DRAIN, connection).await {
        ended(result);
    }
}

fn ended(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
