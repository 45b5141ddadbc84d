//! One server: its connections and its health.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::{Base, Connection, MAX_STREAMS, Spawn};
use super::error::ConnectError;
use super::metrics::HostMetrics;

/// Pause of a server after its first failure; further pauses double.
const FIRST_FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause of a failed server.
const MAX_FAILURE_PAUSE: Duration = Duration::from_secs(15);
/// Connections per server; beyond that, streams queue.
const MAX_CONNECTIONS: usize = 32;

/// What is needed to connect: TLS configuration and task spawner.
pub(super) struct Connector {
    pub(super) tls: Mutex<Arc<rustls::ClientConfig>>,
    pub(super) spawn: Arc<dyn Spawn>,
}

/// One server of a pool, with its connections and its health.
pub(super) struct Server {
    pub(super) base: Arc<Base>,
    pub(super) metrics: Arc<HostMetrics>,
    connections: Mutex<Vec<Connection>>,
    /// Locked while connecting, so that a burst of calls makes one connection.
    dial: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
}

/// Recent failures of a server.
#[derive(Clone, Copy, Default)]
struct Health {
    /// Consecutive failures.
    failures: u32,
    /// End of the pause.
    out: Option<Instant>,
    /// Whether a reachable server refused a call; it must report readiness before it gets further calls.
    doubtful: bool,
}

impl Server {
    pub(super) fn new(base: Base) -> Self {
        Self {
            metrics: HostMetrics::of(&base.authority),
            base: Arc::new(base),
            connections: Mutex::default(),
            dial: tokio::sync::Mutex::default(),
            health: Mutex::default(),
        }
    }

    /// Whether the server is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.health.lock().out.is_some_and(|until| Instant::now() < until)
    }

    /// Whether the server failed and has not succeeded since.
    pub(super) fn is_failing(&self) -> bool {
        self.health.lock().failures > 0
    }

    /// Records a failure; `doubtful`: the server was reachable but refused a call.
    pub(super) fn failed(&self, doubtful: bool) {
        let mut health = self.health.lock();
        let span = FIRST_FAILURE_PAUSE.saturating_mul(1 << health.failures.min(10)).min(MAX_FAILURE_PAUSE);
        health.failures = health.failures.saturating_add(1);
        health.out = Some(Instant::now() + span);
        health.doubtful |= doubtful;
    }

    /// Returns the open connection with the fewest streams, if it has room or no more connections are allowed.
    pub(super) fn open(&self) -> Option<Connection> {
        let mut connections = self.connections.lock();
        // A connection after a GOAWAY accepts no new streams; its open streams keep it alive.
        connections.retain(Connection::accepts_streams);
        let full = connections.len() >= MAX_CONNECTIONS;
        let least = connections.iter().min_by_key(|connection| connection.streams())?;
        (full || least.streams() < MAX_STREAMS).then(|| least.clone())
    }

    /// Drops the pool's handles on all connections; each is closed when its streams have ended.
    pub(super) fn forget(&self) {
        self.connections.lock().clear();
    }

    /// Whether the server was reachable but refused a call.
    pub(super) fn doubtful(&self) -> bool {
        self.health.lock().doubtful
    }

    /// Returns a connection, made if necessary. `ask`: other servers exist, so a server that failed meanwhile is skipped, and a doubtful server or one without a connection
    /// must report readiness first.
    pub(super) async fn reach(&self, connector: &Connector, ask: bool) -> Result<Connection, ConnectError> {
        let _dialling = self.dial.lock().await;
        if ask && self.is_paused() {
            return Err(ConnectError::Paused(self.base.to_string()));
        }
        self.connect(connector, ask).await
    }

    /// As [`Server::reach`] in the background, unless another task is already connecting.
    pub(super) async fn probe(&self, connector: &Connector) {
        let Ok(_dialling) = self.dial.try_lock() else { return };
        if !self.is_paused()
            && (self.is_failing() || self.open().is_none())
            && let Err(why) = self.connect(connector, true).await
        {
            tracing::debug!(%why, "server is still paused");
        }
    }

    async fn connect(&self, connector: &Connector, ask: bool) -> Result<Connection, ConnectError> {
        let (connection, fresh) = match self.open() {
            Some(connection) => (connection, false),
            None => {
                let tls = connector.tls.lock().clone();
                let made = Connection::make(self.base.clone(), tls, connector.spawn.clone()).await;
                (made.inspect_err(|_| self.failed(false))?, true)
            }
        };
        let doubtful = self.doubtful();
        if ask && (fresh || doubtful) {
            connection.clone().ready().await.inspect_err(|_| self.failed(true))?;
        }
        if fresh {
            self.connections.lock().push(connection.clone());
        }
        if ask || !doubtful {
            *self.health.lock() = Health::default();
        }
        Ok(connection)
    }
}
