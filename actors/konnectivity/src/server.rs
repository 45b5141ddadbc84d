//! The server of a tunnel: chooses agents, and carries connections between frontends and agents.

pub(crate) mod agents;
pub(crate) mod authenticate;
mod backend;
pub(crate) mod connection;
mod connections;
pub(crate) mod frontend;
mod grpc;
mod http_connect;
pub(crate) mod identifiers;
pub(crate) mod leases;
pub(crate) mod peers;
pub(crate) mod strategy;
pub(crate) mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_client::Client;
use oarlock_runtime::gate::Gate;
use oarlock_runtime::{ActorKind, Instant, Phase, System, clock, rng};
use oarlock_seeded_bug::seeded_bug;
use oarlock_serving::listener::{self, Socket};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::error::{DialError, Reason};
use crate::limits::Limits;
use crate::metrics::FAMILIES;
use crate::probes;
use authenticate::Authenticate;
use backend::Backend;
use connection::Connection;
use frontend::Mode;
use leases::LeaseOptions;
use peers::Peers;
use peers::port::PeerPort;
use strategy::{Candidate, Strategy};
use stream::TunnelStream;

/// The kind of the actor that accepts connections of agents.
pub(crate) static AGENT_LISTENER: ActorKind =
    ActorKind { name: "konnectivity.agent-listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };
/// The kind of the actor that accepts connections of frontends.
pub(crate) static FRONTEND_LISTENER: ActorKind =
    ActorKind { name: "konnectivity.frontend-listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// The kind of the actor that accepts connections of other servers.
pub(crate) static PEER_LISTENER: ActorKind =
    ActorKind { name: "konnectivity.peer-listener", phase: Phase::Ingress, ..ActorKind::DEFAULT };

/// The most agents that are connected at one time.
const MAX_AGENTS: usize = 16_384;
/// The most connections of frontends, and of other servers, at one time.
const MAX_FRONTENDS: usize = 16_384;
/// The most agents that are asked for one connection.
const MAX_ATTEMPTS: usize = 3;

/// The configuration of a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// The server's id, unique among all servers of the tunnel.
    pub id: String,
    /// The number of servers of the tunnel, which each agent gets when it connects.
    pub count: u32,
    /// How agents are chosen, in order.
    pub strategies: Vec<Strategy>,
    /// Bounds.
    pub limits: Limits,
    /// The check of agents.
    pub authenticate: Arc<dyn Authenticate>,
    /// The time without data after which agents and frontends are pinged over HTTP/2; those that leave a ping unanswered for 20 s are lost.
    pub keepalive: Duration,
    /// The servers that dials are forwarded to for which this server has no agent. `None`: dials are not forwarded.
    pub peers: Option<Peers>,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions").field("id", &self.id).field("count", &self.count).finish_non_exhaustive()
    }
}

/// A server. Clones share it.
#[derive(Clone, Debug)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    system: System,
    options: ServerOptions,
    count: AtomicU32,
    /// Gate of the tasks of streams and upgraded connections.
    gate: Gate,
    /// Streams of agents by the order of their arrival.
    backends: Mutex<BTreeMap<u64, Arc<Backend>>>,
    next: AtomicU64,
}

impl Server {
    /// Creates a server without listeners.
    #[must_use]
    pub fn new(system: &System, options: ServerOptions) -> Self {
        let gate = system.gate("konnectivity.streams", Phase::Ingress);
        // So that scrapes find the metrics before the first agent connects.
        LazyLock::force(&FAMILIES);
        let count = AtomicU32::new(options.count);
        let (backends, next) = (Mutex::default(), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { system: system.clone(), options, count, gate, backends, next }) }
    }

    /// Accepts agents on a bound socket. Returns the socket's address.
    ///
    /// # Errors
    /// When the runtime refuses the actor.
    pub async fn listen_agents(
        &self,
        socket: TcpListener,
        tls: Option<TlsAcceptor>,
    ) -> Result<SocketAddr, oarlock_runtime::Error> {
        let handler = agents::AgentPort(self.clone());
        listener::listen(&self.inner.system, &AGENT_LISTENER, socket, tls, MAX_AGENTS, handler).await
    }

    /// Accepts frontends on a bound socket, over gRPC and HTTP `CONNECT`. Whoever connects may dial every destination, so the socket must be protected: by TLS
    /// with the authority of API servers, or because nobody else can reach it. Returns the socket's address.
    ///
    /// # Errors
    /// When the runtime refuses the actor.
    pub async fn listen_frontends(
        &self,
        socket: TcpListener,
        tls: Option<TlsAcceptor>,
    ) -> Result<SocketAddr, oarlock_runtime::Error> {
        let handler = frontend::FrontendPort { server: self.clone(), mode: Mode::Any };
        listener::listen(&self.inner.system, &FRONTEND_LISTENER, socket, tls, MAX_FRONTENDS, handler).await
    }

    /// Accepts frontends on a bound socket of any kind, over the protocols of a mode. The socket must be protected as that of [`Server::listen_frontends`].
    ///
    /// # Errors
    /// When the runtime refuses the actor.
    pub async fn listen_frontends_on(&self, socket: Socket, mode: Mode) -> Result<(), oarlock_runtime::Error> {
        let handler = frontend::FrontendPort { server: self.clone(), mode };
        listener::listen_on(&self.inner.system, &FRONTEND_LISTENER, socket, MAX_FRONTENDS, handler).await
    }

    /// Accepts dials that other servers forward, on a bound socket. They are answered through agents of this server only. `tls` must verify that a client's certificate
    /// is signed by the authority of servers; it must also be one of the user [`SERVER_USER`](crate::SERVER_USER), which the server checks itself. Returns the socket's
    /// address.
    ///
    /// # Errors
    /// When the runtime refuses the actor.
    pub async fn listen_peers(
        &self,
        socket: TcpListener,
        tls: TlsAcceptor,
    ) -> Result<SocketAddr, oarlock_runtime::Error> {
        // Over HTTP CONNECT there are no pings.
        probes::begin(&socket);
        let handler = PeerPort::new(self.clone(), self.inner.options.limits.connections);
        listener::listen(&self.inner.system, &PEER_LISTENER, socket, Some(tls), MAX_FRONTENDS, handler).await
    }

    /// Counts the tunnel's servers by Leases from now on, of which this server has one.
    ///
    /// # Errors
    /// When the server's id cannot be part of a Lease's name, or the runtime refuses the actor.
    pub async fn count_by_leases(&self, client: &Client, options: LeaseOptions) -> Result<(), oarlock_runtime::Error> {
        leases::start(&self.inner.system, self.clone(), client, options).await
    }

    /// Changes the number of servers that agents get when they connect.
    pub fn set_count(&self, count: u32) {
        self.inner.count.store(count, Ordering::Relaxed);
    }

    /// The number of agents' streams. A server without any is not ready.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.inner.backends.lock().len()
    }

    /// The number of dials and connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        let backends = self.inner.backends.lock();
        backends.values().map(|backend| backend.counts()).map(|(dials, open)| dials + open).sum()
    }

    /// Connects to `address` (`host:port`) through an agent. A strategy that finds no agent of this server is tried with those of the [peers](ServerOptions::peers) before
    /// the next strategy. An agent that is lost or does not answer is followed by another one, as far as the deadline allows.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn dial(&self, address: &str, deadline: Instant) -> Result<Connection, DialError> {
        let begun = clock::now();
        let dialled = self.dial_anywhere(address, deadline).await;
        match &dialled {
            Ok(_) => FAMILIES.dial_seconds.observe(begun.elapsed().as_secs_f64()),
            Err(error) => FAMILIES.dial_failure(error.reason()),
        }
        dialled
    }

    async fn dial_anywhere(&self, address: &str, deadline: Instant) -> Result<Connection, DialError> {
        let ServerOptions { strategies, peers, .. } = &self.inner.options;
        let Some(peers) = peers.as_ref().filter(|_| is_address(address)) else {
            return self.dial_here(strategies, address, deadline).await;
        };
        let missing = {
            let backends = self.inner.backends.lock();
            strategy::without_agent(strategies, backends.values().map(Candidate::identifiers), address)
        };
        if missing.is_empty() {
            return self.dial_here(strategies, address, deadline).await;
        }
        match peers.dial(missing, address, deadline).await {
            Ok(forwarded) => Ok(Connection::Forwarded(forwarded)),
            // The next strategy finds an agent of this server.
            Err(error) if error.reason() == Reason::NoAgent && missing.len() < strategies.len() => {
                self.dial_here(strategies, address, deadline).await
            }
            Err(error) => Err(error),
        }
    }

    /// Answers a dial that another server has forwarded: through an agent of this server, so that no dial is forwarded twice.
    async fn dial_of_peer(
        &self,
        strategies: &[Strategy],
        address: &str,
        deadline: Instant,
    ) -> Result<Connection, DialError> {
        if seeded_bug!("forwarded_dials_are_forwarded_again") {
            return self.dial_anywhere(address, deadline).await;
        }
        self.dial_here(strategies, address, deadline).await
    }

    /// Connects through an agent of this server.
    async fn dial_here(
        &self,
        strategies: &[Strategy],
        address: &str,
        deadline: Instant,
    ) -> Result<Connection, DialError> {
        if !is_address(address) {
            return Err(DialError::new(Reason::Invalid, format!("{address:?} is not host:port")));
        }
        let mut failed = DialError::new(Reason::NoAgent, format!("no agent is available for {address}"));
        let mut tried: Vec<Arc<Backend>> = Vec::new();
        while tried.len() < MAX_ATTEMPTS && !deadline.passed() {
            // Chosen anew each time: an agent may have connected again meanwhile.
            let untried = |backend: &&Arc<Backend>| !tried.iter().any(|known| Arc::ptr_eq(known, backend));
            let streams: Vec<_> = self.inner.backends.lock().values().filter(untried).cloned().collect();
            let chosen = rng::with(|rng| strategy::choose(strategies, streams, address, rng));
            let Some(backend) = chosen.into_iter().next() else { break };
            let attempt = clock::after(self.inner.options.limits.dial_timeout).min(deadline);
            match TunnelStream::dial(Arc::clone(&backend), address, attempt).await {
                Err(error) if error.is_of_the_agent() => failed = error,
                answer => return answer.map(Connection::Own),
            }
            tried.push(backend);
        }
        Err(failed)
    }

    fn count(&self) -> u32 {
        self.inner.count.load(Ordering::Relaxed)
    }

    fn add(&self, backend: &Arc<Backend>) -> u64 {
        let key = self.inner.next.fetch_add(1, Ordering::Relaxed);
        self.inner.backends.lock().insert(key, Arc::clone(backend));
        key
    }

    fn remove(&self, key: u64) {
        self.inner.backends.lock().remove(&key);
    }
}

/// Whether a text is `host:port`, with an IPv6 address in brackets.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host_is_valid = match bracketed {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    host_is_valid && port.parse::<u16>().is_ok_and(|port| port != 0)
}
