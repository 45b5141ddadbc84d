//! The HTTPS server of a process: what every part of the crew tells an operator of itself, and the pieces that kubelet and API server share.
//!
//! - [`bind`] takes the port and reads the certificate, before anything else is begun; [`serve`] answers there.
//! - `/healthz`, `/livez`, `/readyz` ([`health`], [`checks`]) are for everybody; `/metrics` ([`metrics`]), `/metrics/slis` ([`slis`]) and `/debug/actors` ([`actors`]) for whom the
//!   API server lets see them ([`access`]): upstream's delegated authentication and authorization.
//! - [`listener`]: bounded connections with times for handshake, head and silence, each a gated task of the listener's actor.
//!
//! Invariant: no path that is not open answers anything but a refusal to somebody whose access was not reviewed.

pub mod access;
pub mod actors;
pub mod answer;
mod busy;
pub mod checks;
pub mod health;
pub mod listener;
pub mod metrics;
pub mod query;
mod server;
pub mod slis;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_config::{SecureServingOptions, ServerTrust};
use oarlock_pki::tls::ServingCertificate;
use oarlock_runtime::{ActorKind, Phase, System};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use access::Access;
use health::Check;
use server::Server;

/// The row of listeners. They serve until the crew has stopped, so that readiness fails first.
pub static LISTENER: ActorKind = ActorKind { name: "serving.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// The rows of this crate.
pub static KINDS: [&ActorKind; 1] = [&LISTENER];

/// Connections at once.
const CONNECTIONS: usize = 256;

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be had.
    #[error("--bind-address {address} --secure-port {port}: {source} (another port, or 0 for none, with --secure-port)", address = .address.ip(), port = .address.port())]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate cannot be used.
    #[error("{flags}: {source}")]
    Certificate {
        /// Who named it.
        flags: &'static str,
        /// Why not.
        source: oarlock_pki::Error,
    },
    /// The actor cannot be spawned.
    #[error("the listener of --secure-port")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// A port that is taken, and what is shown there.
#[derive(Debug)]
pub struct Bound {
    socket: TcpListener,
    certificate: Arc<ServingCertificate>,
    options: SecureServingOptions,
}

/// What a part brings.
#[derive(Debug, Default)]
pub struct Parts {
    /// Whom to ask who somebody is and what they may; without it everything is forbidden that is not open.
    pub client: Option<Client>,
    /// Whom `client` trusts: whose client certificates are believed, where no flag says it.
    pub trust: Option<ServerTrust>,
    /// Actors that must be there, and synced, for it to be ready.
    pub kinds: Vec<&'static ActorKind>,
    /// What else it takes to be ready.
    pub ready: Vec<Check>,
}

/// Takes the port, if it is not 0, and reads the certificate; `name` is who shows one that is made here.
///
/// # Errors
/// [`Error::Bind`], [`Error::Certificate`].
pub async fn bind(options: &SecureServingOptions, port: u16, name: &str) -> Result<Option<Bound>, Error> {
    if port == 0 {
        return Ok(None);
    }
    let certificate =
        tls::certificate(options, name).map_err(|source| Error::Certificate { flags: TLS_FLAGS, source })?;
    let address = SocketAddr::new(options.bind_address, port);
    let socket = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
    Ok(Some(Bound { socket, certificate, options: options.clone() }))
}

const TLS_FLAGS: &str = "--tls-cert-file, --tls-private-key-file";

/// Serves there, if anywhere, until the process ends.
///
/// # Errors
/// [`Error`].
pub fn serve(system: &System, bound: Option<Bound>, parts: Parts) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(begin(system, bound, parts))
}

async fn begin(system: &System, bound: Option<Bound>, parts: Parts) -> Result<(), Error> {
    let Some(Bound { socket, certificate, options }) = bound else { return Ok(()) };
    let clients = tls::clients(options.client_ca_file.as_deref(), parts.trust.as_ref())
        .map_err(|source| Error::Certificate { flags: "--client-ca-file", source })?;
    let config = oarlock_pki::tls::server_config(certificate, clients.as_ref())
        .map_err(|source| Error::Certificate { flags: TLS_FLAGS, source })?;
    let open = options.authorization_always_allow_paths;
    let server = Server::new(system, Access::new(clients), parts.client, open, (parts.kinds, parts.ready));
    let tls = Some(TlsAcceptor::from(Arc::new(config)));
    let address = listener::listen(system, &LISTENER, socket, tls, CONNECTIONS, server).await?;
    tracing::info!(%address, "serves health and metrics");
    Ok(())
}
