//! The HTTPS server by which every component shows its health, metrics and actors, and the parts of an HTTP server that kubelet and API server share.
//!
//! - [`bind`] binds the port and reads the certificate, before the process starts anything else; [`serve`] answers on the port.
//! - `/healthz`, `/livez`, `/readyz` ([`health`], [`checks`]) are open to every client. `/metrics` ([`metrics`]), `/metrics/slis` ([`slis`]) and
//!   `/debug/actors` ([`actors`]) need the API server's permission ([`access`]): upstream's delegated authentication and authorization.
//! - [`open`]: health and metrics over plain HTTP for everybody, for the few programs that serve them so upstream.
//! - [`listener`]: a bounded number of connections with timeouts for handshake, request head and idleness, each a gated task of the listener's actor.
//!
//! Invariant: on the HTTPS server, a path that is not open answers only with a refusal unless the client's access was reviewed and allowed.

pub mod access;
pub mod actors;
pub mod answer;
mod busy;
pub mod check;
pub mod checks;
pub mod health;
pub mod listener;
pub mod metrics;
pub mod open;
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
use check::Check;
use server::Server;

/// The actor kind of listeners. Listeners stop after the controllers and schedulers, so that clients see readiness fail first.
pub static LISTENER: ActorKind = ActorKind { name: "serving.listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// The actor kinds of this crate.
pub static KINDS: [&ActorKind; 1] = [&LISTENER];

/// The most concurrent connections.
const MAX_CONNECTIONS: usize = 256;

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("--bind-address {address} --secure-port {port}: {source} (another port, or 0 for none, with --secure-port)", address = .address.ip(), port = .address.port())]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate or key cannot be read or used.
    #[error("{flags}: {source}")]
    Certificate {
        /// The flags that name the files.
        flags: &'static str,
        /// Why not.
        source: oarlock_pki::Error,
    },
    /// The listener's actor cannot be spawned.
    #[error("the listener of --secure-port")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// A bound port with the certificate and options for serving on it.
#[derive(Debug)]
pub struct Bound {
    socket: TcpListener,
    certificate: Arc<ServingCertificate>,
    options: SecureServingOptions,
}

/// The component-specific parts of the server: the API client for reviews, and the conditions of readiness.
#[derive(Debug, Default)]
pub struct Parts {
    /// The client for token and access reviews; without a client every path that is not open is forbidden.
    pub client: Option<Client>,
    /// The server authorities that `client` trusts; also the authorities of client certificates unless a flag names others.
    pub trust: Option<ServerTrust>,
    /// The actor kinds that must run, synced, before the component is ready.
    pub kinds: Vec<&'static ActorKind>,
    /// Further readiness checks.
    pub ready: Vec<Check>,
}

/// Binds the port, unless it is 0, and reads the certificate, or generates one for the subject `name` if no flags name files.
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

/// Starts to serve on a bound port, if there is one, until the process ends.
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
    let address = listener::listen(system, &LISTENER, socket, tls, MAX_CONNECTIONS, server).await?;
    tracing::info!(%address, "serves health and metrics");
    Ok(())
}
