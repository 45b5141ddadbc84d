//! Assembles and starts a server: store, authentication, authorization, admission, listener.

pub mod error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_admission::Chain;
use oarlock_apis::DisabledFields;
use oarlock_auth::authenticators::RequestHeader;
use oarlock_auth::tokens::{Issuer, Verifier};
use oarlock_auth::{Authenticators, Authorizers};
use oarlock_meta::{MicroTime, Time};
use oarlock_pki::tls::{ServingCertificate, server_config};
use oarlock_pki::{ClientTrust, Pki, SigningKey, VerifyingKeys};
use oarlock_registry::{Reader, indexer::StoredIndexer};
use oarlock_runtime::{Phase, System};
use oarlock_schema::Value;
use oarlock_storage::Log;
use oarlock_store::{Entry, Store, expirer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::config::Config;
use crate::egress::Egress;
use crate::http::listener;
use crate::inflight::Inflight;
use crate::kubelets::Kubelets;
use crate::large::Lanes;
use crate::lookup::ReaderLookup;
use crate::milestones::MILESTONES;
use crate::server::{Parts, Server};
use crate::state::State;
use crate::{authorizer_feed, bootstrap, milestones, termination};

pub use error::StartError;

/// The inputs of [`assemble`].
pub struct Assembly {
    /// Settings of the server.
    pub config: Config,
    /// The log in which the cluster's state is stored.
    pub log: Arc<dyn Log>,
    /// Options of the store.
    pub store: oarlock_store::Options,
    /// The key that signs ServiceAccount tokens.
    pub signer: Arc<SigningKey>,
    /// Connections to kubelets.
    pub kubelets: Kubelets,
    /// The ways to other servers.
    pub egress: Egress,
    /// Names of the admission stages to disable.
    pub disable_admission: Vec<String>,
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembly").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The inputs of [`start`].
pub struct Options {
    /// Settings of the server; `port` is the listener's port.
    pub config: Config,
    /// Keys and certificates.
    pub pki: Pki,
    /// The log in which the cluster's state is stored.
    pub log: Arc<dyn Log>,
    /// Options of the store.
    pub store: oarlock_store::Options,
    /// The bound listening socket.
    pub listener: TcpListener,
    /// Connections to kubelets.
    pub kubelets: Kubelets,
    /// The ways to other servers.
    pub egress: Egress,
    /// Names of the admission stages to disable.
    pub disable_admission: Vec<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A server with its listener.
#[derive(Clone, Debug)]
pub struct Running {
    /// The server.
    pub server: Server,
    /// Address of the listener.
    pub address: SocketAddr,
}

/// Starts a server. When this returns, the listener accepts connections; readiness follows when bootstrapping is done.
///
/// # Errors
/// See [`StartError`].
pub fn start(system: &System, options: Options) -> BoxFuture<'_, Result<Running, StartError>> {
    Box::pin(listen(system, options))
}

async fn listen(system: &System, options: Options) -> Result<Running, StartError> {
    let Options { mut config, pki, log, store, listener: socket, kubelets, egress, disable_admission } = options;
    let address = socket.local_addr()?;
    config.port = address.port();
    crate::metrics::features(&config.features);
    let clients = ClientTrust::new([pki.ca.certificate()])?;
    let proxies = ClientTrust::new([pki.front_proxy_ca.certificate()])?;
    let keys = VerifyingKeys::new().with_pem(&pki.service_account_public_pem)?;
    config.jwks = keys.jwks();
    config.ca_pem = pki.ca.certificate_pem();
    config.client_ca_pem = pki.ca.certificate_pem();
    config.front_proxy_ca_pem = pki.front_proxy_ca.certificate_pem();
    let issuers = vec![config.issuer.clone()];
    let authenticators = Authenticators::new()
        .with_clients(clients.clone())
        .with_front_proxy(RequestHeader::standard(proxies, vec!["front-proxy-client".to_owned()]));
    let serving = ServingCertificate::new(&pki.serving)?;
    let tls = TlsAcceptor::from(Arc::new(server_config(serving, Some(&clients))?));
    let signer = Arc::new(pki.service_account);
    let assembly = Assembly { config, log, store, signer, kubelets, egress, disable_admission };
    let server = assemble(system, assembly, |reader| {
        let verifier = Verifier::new(issuers.clone(), issuers, keys);
        authenticators.with_tokens(verifier, Arc::new(ReaderLookup::new(reader.clone())))
    })
    .await?;
    crate::metrics::objects(&server);
    let (for_bootstrap, for_announcer, for_listener) = (server.clone(), server.clone(), server.clone());
    let socket = listener::Socket::new(socket);
    system.spawn_loop(&bootstrap::BOOTSTRAP, "main", move |ctx| bootstrap::run(ctx, for_bootstrap.clone())).await?;
    let announce = move |ctx| termination::run(ctx, for_announcer.clone());
    system.spawn_loop(&termination::ANNOUNCER, "main", announce).await?;
    let run = move |ctx| listener::run(ctx, socket.clone(), tls.clone(), for_listener.clone());
    system.spawn_loop(&listener::LISTENER, address.to_string(), run).await?;
    Ok(Running { server, address })
}

/// Loads the store and starts everything but the listener and the bootstrapper, which is all that callers in the same process need. `authenticators`
/// authenticate the other callers.
///
/// # Errors
/// See [`StartError`].
pub async fn assemble(
    system: &System,
    assembly: Assembly,
    authenticators: impl FnOnce(&Reader) -> Authenticators,
) -> Result<Server, StartError> {
    let Assembly { config, log, store, signer, kubelets, egress, disable_admission } = assembly;
    let store = Store::start(system, log, Arc::new(StoredIndexer), store).await?;
    let reader = Reader::new(store.view().clone());
    let authenticators = authenticators(&reader);
    let issuer = Issuer::new(signer, config.issuer.clone(), vec![config.issuer.clone()]);
    let stages = oarlock_admission::table::stages(&reader);
    let admission =
        Chain::new(stages.into_iter().filter(|s| !disable_admission.iter().any(|d| d == s.name())).collect());
    if !config.event_ttl.is_zero() {
        expire_events(system, &store, config.event_ttl).await?;
    }
    // From here on the requests of clients determine the load of this process, so a long poll must not end the process.
    system.serves();
    let disabled = DisabledFields::of(&config.features);
    let server = Server::new(Parts {
        store,
        reader,
        authorizers: Authorizers::new(),
        inflight: Inflight::new(config.limits),
        // The gate closes in phase `Pipeline`, after `Ingress`: requests that the listener still finishes need it open.
        large: Lanes::new(system.gate("apiserver.large", Phase::Pipeline)),
        admission,
        authenticators,
        issuer,
        config,
        state: State::default(),
        system: system.clone(),
        kubelets,
        egress,
        streams: system.gate("apiserver.streams", Phase::Ingress),
        turns: oarlock_admission::turns::KeyedQueues::new(),
        disabled,
    });
    authorizer_feed::start(system, &server).await?;
    let for_milestones = server.clone();
    system.spawn_loop(&MILESTONES, "main", move |ctx| milestones::run(ctx, for_milestones.clone())).await?;
    Ok(server)
}

/// Expires Events `ttl` after the latest of the times that they state: creation, or last recurrence.
async fn expire_events(system: &System, store: &Store, ttl: Duration) -> Result<(), oarlock_runtime::Error> {
    let expiry = move |entry: &Entry| {
        let bytes = entry.bytes()?;
        let obj = oarlock_registry::index::decode(bytes, oarlock_schema::type_named("core/v1.Event")?).ok()?;
        let text = |path: &[&str]| obj.at(path).and_then(Value::as_str).filter(|t| !t.is_empty());
        let seconds = [["metadata", "creationTimestamp"].as_slice(), &["lastTimestamp"]];
        let seconds = seconds.iter().filter_map(|path| Time::parse(text(path)?).ok()).map(|t| t.unix());
        let micros = [["series", "lastObservedTime"].as_slice(), &["eventTime"]];
        let micros = micros.iter().filter_map(|path| MicroTime::parse(text(path)?).ok());
        let last = seconds.chain(micros.map(|t| t.unix_micros() / 1_000_000)).max()?;
        let ttl = i64::try_from(ttl.as_secs()).ok()?;
        jiff::Timestamp::from_second(last.saturating_add(ttl)).ok()
    };
    expirer::start(system, store.clone(), "/registry/events/", Arc::new(expiry)).await.map(|_| ())
}

/// Waits until the server is ready, at most until `deadline`.
///
/// # Errors
/// When the server is not ready in time.
pub async fn ready(server: &Server, deadline: oarlock_runtime::Instant) -> Result<(), oarlock_runtime::clock::Elapsed> {
    oarlock_runtime::clock::timeout_at(deadline, server.state().bootstrapped()).await
}
