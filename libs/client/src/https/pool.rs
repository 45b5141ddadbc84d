//! All connections to all servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::time::Instant;

use super::attempt::Failure;
use super::connection::{Base, Connection, STREAMS, Spawn};
use super::endpoint::Error;

pub(super) use super::connection::Stream;

/// A server that could not be reached is left out for this long, then twice as long, …
const OUT: Duration = Duration::from_millis(500);
/// … up to this, as long as there are others.
const OUT_MAX: Duration = Duration::from_secs(15);
/// Connections to one server; beyond that streams queue.
const CONNECTIONS: usize = 32;

/// The servers, used in turn.
pub(super) struct Pool {
    servers: Vec<Server>,
    tls: Mutex<Arc<rustls::ClientConfig>>,
    spawn: Arc<dyn Spawn>,
    next: AtomicUsize,
}

struct Server {
    base: Arc<Base>,
    connections: Mutex<Vec<Connection>>,
    /// Held while connecting, so that a burst makes one connection and not one each.
    dial: tokio::sync::Mutex<()>,
    out: Mutex<Out>,
}

#[derive(Default)]
struct Out {
    failures: u32,
    until: Option<Instant>,
}

impl Pool {
    pub(super) fn new(
        servers: &[String],
        name: Option<&str>,
        tls: Arc<rustls::ClientConfig>,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Self, Error> {
        if servers.is_empty() {
            return Err(Error::Address { address: String::new(), reason: "there is none".to_owned() });
        }
        let servers =
            servers.iter().map(|address| Ok(Server::new(base(address, name)?))).collect::<Result<_, Error>>()?;
        // Clients that start together should not all begin with the first server.
        let start = getrandom::u32().unwrap_or(0) as usize % 1024;
        Ok(Self { servers, tls: Mutex::new(tls), spawn, next: AtomicUsize::new(start) })
    }

    /// The servers' authorities.
    pub(super) fn servers(&self) -> Vec<&str> {
        self.servers.iter().map(|server| server.base.authority.as_str()).collect()
    }

    /// What to say when no connection was made in time.
    pub(super) fn unreachable(&self) -> String {
        format!("connect to {}: timed out", self.servers().join(", "))
    }

    pub(super) fn renew(&self, tls: Arc<rustls::ClientConfig>) {
        *self.tls.lock() = tls;
        for server in &self.servers {
            server.connections.lock().clear();
        }
    }

    /// A connection with room, to the next server that can be reached.
    pub(super) async fn connection(&self) -> Result<Connection, Failure> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let ring = self.servers.iter().cycle().skip(turn % self.servers.len()).take(self.servers.len());
        let mut last = String::from("no server");
        // Those that failed lately are tried only when no other is left.
        let (good, bad): (Vec<&Server>, Vec<&Server>) = ring.partition(|server| !server.out());
        for server in good.into_iter().chain(bad) {
            match server.connection(&self.tls, &self.spawn).await {
                Ok(connection) => return Ok(connection),
                Err(why) => last = why,
            }
        }
        Err(Failure::Unreachable(last))
    }
}

impl Server {
    fn new(base: Base) -> Self {
        Self {
            base: Arc::new(base),
            connections: Mutex::default(),
            dial: tokio::sync::Mutex::default(),
            out: Mutex::default(),
        }
    }

    fn out(&self) -> bool {
        self.out.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// The connection with the fewest streams, if one has room (or no more can be made).
    fn ready(&self) -> Option<Connection> {
        let mut connections = self.connections.lock();
        connections.retain(Connection::lives);
        let full = connections.len() >= CONNECTIONS;
        let least = connections.iter().min_by_key(|connection| connection.streams())?;
        (full || least.streams() < STREAMS).then(|| least.clone())
    }

    async fn connection(
        &self,
        tls: &Mutex<Arc<rustls::ClientConfig>>,
        spawn: &Arc<dyn Spawn>,
    ) -> Result<Connection, String> {
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let _dialling = self.dial.lock().await;
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let tls = tls.lock().clone();
        match Connection::make(self.base.clone(), tls, spawn.clone()).await {
            Ok(connection) => {
                *self.out.lock() = Out::default();
                self.connections.lock().push(connection.clone());
                Ok(connection)
            }
            Err(why) => {
                let mut out = self.out.lock();
                let span = OUT.saturating_mul(1 << out.failures.min(10)).min(OUT_MAX);
                out.failures = out.failures.saturating_add(1);
                out.until = Some(Instant::now() + span);
                Err(why)
            }
        }
    }
}

/// Takes an address apart.
fn base(address: &str, name: Option<&str>) -> Result<Base, Error> {
    let wrong = |reason: &str| Error::Address { address: address.to_owned(), reason: reason.to_owned() };
    let uri: http::Uri = address.parse().map_err(|e: http::uri::InvalidUri| wrong(&e.to_string()))?;
    if uri.scheme_str() != Some("https") {
        return Err(wrong("must begin with https://"));
    }
    let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name.unwrap_or(&host).to_owned()).map_err(|e| wrong(&e.to_string()))?;
    Ok(Base {
        port: authority.port_u16().unwrap_or(443),
        authority: authority.to_string(),
        prefix: uri.path().trim_end_matches('/').to_owned(),
        host,
        name,
    })
}
