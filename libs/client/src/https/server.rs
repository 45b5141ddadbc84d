//! One server: its connections, and what is known of its health.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::{Base, Connection, STREAMS, Spawn};

/// A server that failed is left to others for this long, then twice as long, …
const OUT: Duration = Duration::from_millis(500);
/// … up to this.
const OUT_MAX: Duration = Duration::from_secs(15);
/// Connections to one server; beyond that streams queue.
const CONNECTIONS: usize = 32;

/// How connections are made.
pub(super) struct Means {
    pub(super) tls: Mutex<Arc<rustls::ClientConfig>>,
    pub(super) spawn: Arc<dyn Spawn>,
}

/// See the module text.
pub(super) struct Server {
    pub(super) base: Arc<Base>,
    connections: Mutex<Vec<Connection>>,
    /// Held while connecting, so that a burst makes one connection and not one each.
    dial: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
}

#[derive(Clone, Copy, Default)]
struct Health {
    /// In a row.
    failures: u32,
    /// Left to others until then.
    out: Option<Instant>,
    /// It could be reached and would not serve: it is asked whether it is ready before it gets anything again.
    doubtful: bool,
}

impl Server {
    pub(super) fn new(base: Base) -> Self {
        Self {
            base: Arc::new(base),
            connections: Mutex::default(),
            dial: tokio::sync::Mutex::default(),
            health: Mutex::default(),
        }
    }

    /// Whether it failed lately.
    pub(super) fn is_out(&self) -> bool {
        self.health.lock().out.is_some_and(|until| Instant::now() < until)
    }

    /// Whether it failed and has not done better since.
    pub(super) fn ails(&self) -> bool {
        self.health.lock().failures > 0
    }

    /// It failed; `doubtful`: not for want of a connection.
    pub(super) fn failed(&self, doubtful: bool) {
        let mut health = self.health.lock();
        let span = OUT.saturating_mul(1 << health.failures.min(10)).min(OUT_MAX);
        health.failures = health.failures.saturating_add(1);
        health.out = Some(Instant::now() + span);
        health.doubtful |= doubtful;
    }

    /// The open connection with the fewest streams, if one has room (or no more can be made).
    pub(super) fn open(&self) -> Option<Connection> {
        let mut connections = self.connections.lock();
        // One that got a GOAWAY takes no new streams; those it has keep it alive.
        connections.retain(Connection::lives);
        let full = connections.len() >= CONNECTIONS;
        let least = connections.iter().min_by_key(|connection| connection.streams())?;
        (full || least.streams() < STREAMS).then(|| least.clone())
    }

    /// Forgets its connections; they close when their streams have ended.
    pub(super) fn forget(&self) {
        self.connections.lock().clear();
    }

    /// Whether it could be reached and would not serve.
    pub(super) fn doubtful(&self) -> bool {
        self.health.lock().doubtful
    }

    /// A connection, made if there is none. `ask`: others are there, so that this one's turn is over when it failed meanwhile, and a new
    /// connection's server, or a doubtful one, must say that it is ready.
    pub(super) async fn reach(&self, means: &Means, ask: bool) -> Result<Connection, String> {
        let _dialling = self.dial.lock().await;
        if ask && self.is_out() {
            return Err(format!("{} is left alone for a while", self.base));
        }
        self.connect(means, ask).await
    }

    /// As [`Server::reach`] for nobody, if nobody is at it already.
    pub(super) async fn look_after(&self, means: &Means) {
        let Ok(_dialling) = self.dial.try_lock() else { return };
        if !self.is_out()
            && (self.ails() || self.open().is_none())
            && let Err(why) = self.connect(means, true).await
        {
            tracing::debug!(why, "server is still out");
        }
    }

    async fn connect(&self, means: &Means, ask: bool) -> Result<Connection, String> {
        let (connection, fresh) = match self.open() {
            Some(connection) => (connection, false),
            None => {
                let tls = means.tls.lock().clone();
                let made = Connection::make(self.base.clone(), tls, means.spawn.clone()).await;
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
