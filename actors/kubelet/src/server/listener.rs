//! The listeners of the kubelet's server.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use oarlock_pki::tls::ServingCertificate;
use oarlock_pki::{ClientTrust, tls};
use oarlock_runtime::{ActorKind, Phase};
use oarlock_serving::answer::Answer;
use oarlock_serving::listener::{self, Chain, Handler};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Peer, Server};

/// Kind of the listeners' actors.
pub(crate) static LISTENER: ActorKind =
    ActorKind { name: "kubelet.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// Largest number of concurrent connections; each followed log and each running command has one.
const MAX_CONNECTIONS: usize = 16_384;

/// Failure to start a listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] oarlock_pki::Error),
    /// The actor cannot be spawned.
    #[error("kubelet's listener")]
    Spawn(#[from] oarlock_runtime::Error),
}

impl Server {
    /// Serves HTTPS on a bound socket, with client certificates of the authorities `clients`. Returns the local address.
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

    /// Serves public data over plain HTTP (`--read-only-port`).
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn listen_read_only(&self, socket: TcpListener) -> Result<SocketAddr, ListenError> {
        self.spawn(socket, None).await
    }

    fn spawn(&self, socket: TcpListener, tls: Option<TlsAcceptor>) -> BoxFuture<'_, Result<SocketAddr, ListenError>> {
        let listen = listener::listen(&self.inner.system, &LISTENER, socket, tls, MAX_CONNECTIONS, self.clone());
        Box::pin(async { Ok(listen.await?) })
    }
}

impl Handler for Server {
    type Peer = Peer;

    fn peer(&self, chain: Option<Chain>) -> Peer {
        chain.map_or(Peer::Reader, Peer::Outside)
    }

    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Answer {
        self.try_answer(peer, request).await.unwrap_or_else(Answer::from)
    }
}
