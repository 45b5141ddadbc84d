//! State that outlives single connections: listeners and the connection state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Dialer, ServerEvent};
use super::options::Spawn;
use super::{keeper, pump};
use crate::link::Link;
use crate::memory::MAX_PAYLOAD;
use crate::queue::Queue;
use crate::role::Identity;
use crate::stats::Stats;
use crate::subject::Pattern;
use crate::subjects::{Carries, GROUP, Kind};
use crate::transport::Subscription;

/// State shared by all handles on a bus; the connection is closed when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

/// State of a member that outlives its connections: listeners, connection state, statistics.
pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) spawn: Arc<dyn Spawn>,
    pub(super) identity: Identity,
    pub(super) link: Link,
    /// Payload limit of the last server, in bytes.
    pub(super) max_payload: AtomicUsize,
    /// Random number that identifies this process.
    pub(super) process: u64,
    /// Cancelled when the last handle on the bus is dropped.
    pub(super) unused: CancellationToken,
    connection: Mutex<Option<Arc<Connection>>>,
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    numbers: AtomicU64,
    stats: Arc<Stats>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("identity", &self.identity).field("link", &self.link).finish_non_exhaustive()
    }
}

/// A listener of a pattern.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) pattern: Pattern,
    pub(super) queue: Arc<Queue>,
    /// Cancelled when the listener ends.
    pub(super) ended: CancellationToken,
    /// Id of the connection that carries the subscription.
    on: Mutex<Option<u64>>,
}

impl Owner {
    pub(super) fn start(dialer: Dialer, spawn: Arc<dyn Spawn>, identity: Identity, stats: Arc<Stats>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            dialer,
            spawn: spawn.clone(),
            identity,
            link: Link::new(),
            max_payload: MAX_PAYLOAD.into(),
            process: random() | 1,
            unused: CancellationToken::new(),
            connection: Mutex::default(),
            entries: Mutex::default(),
            numbers: AtomicU64::new(0),
            stats,
        });
        spawn.spawn(Box::pin(keeper::keep(shared.clone())));
        Arc::new(Self { shared })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.unused.cancel();
    }
}

impl Shared {
    /// Returns a number greater than all earlier ones.
    pub(super) fn next(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the current connection, if there is one.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.lock().clone().filter(|connection| !connection.ended.is_cancelled())
    }

    /// Stores a connection that is about to be complete: listeners that start from now on subscribe on it themselves.
    pub(super) fn adopt(&self, connection: &Arc<Connection>) {
        self.max_payload.store(connection.client.max_payload(), Ordering::Relaxed);
        *self.connection.lock() = Some(connection.clone());
    }

    /// Marks the bus as connected: the connection carries every subscription.
    pub(super) fn connected(&self) -> u64 {
        self.miss();
        self.link.connected()
    }

    /// Marks the bus as disconnected.
    pub(super) fn disconnected(&self) {
        *self.connection.lock() = None;
        self.link.disconnected();
    }

    pub(super) fn enter(&self, pattern: &Pattern, queue: Arc<Queue>) -> Arc<Entry> {
        let (id, ended) = (self.next(), CancellationToken::new());
        let entry = Arc::new(Entry { id, pattern: pattern.clone(), queue, ended, on: Mutex::default() });
        self.entries.lock().insert(id, entry.clone());
        entry
    }

    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().cloned().collect()
    }

    /// Subscribes a listener on a connection, unless already done.
    pub(super) async fn attach(&self, connection: &Arc<Connection>, entry: &Arc<Entry>) {
        if entry.on.lock().replace(connection.id) == Some(connection.id) {
            return;
        }
        let (client, pattern) = (&connection.client, entry.pattern.as_str().to_owned());
        let subscriber = match entry.pattern.row().group {
            true => client.queue_subscribe(pattern, GROUP.to_owned()).await,
            false => client.subscribe(pattern).await,
        };
        match subscriber {
            Ok(subscriber) => {
                self.spawn.spawn(Box::pin(pump::messages(connection.clone(), subscriber, entry.clone())));
            }
            // The client has ended and with it the connection; the next connection includes the subscription.
            Err(error) => {
                tracing::debug!(pattern = %entry.pattern, %error, "not subscribed");
                connection.ended.cancel();
            }
        }
    }

    /// Reports to all hint listeners that an unknown number of hints was lost.
    fn miss(&self) {
        let entries = self.entries();
        entries
            .iter()
            .filter(|entry| entry.pattern.row().carries == Carries::Hints)
            .for_each(|entry| entry.queue.miss());
    }

    /// Handles a server event that is not a message.
    pub(super) fn on_server_event(&self, event: ServerEvent) {
        match event {
            ServerEvent::Slow => {
                tracing::warn!(member = %self.identity, "bus: messages were lost on their way into a queue");
                self.miss();
            }
            ServerEvent::Refused(text) => {
                tracing::error!(member = %self.identity, says = text, "bus: the server allows less than our table of subjects");
                let subject = text.split('"').nth(1).unwrap_or_default();
                if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.row().matches(subject)) {
                    self.stats.of(kind).refused();
                }
                if let Some(connection) = self.connection().filter(|_| text.contains("Publish")) {
                    connection.denied(subject);
                }
            }
        }
    }
}

/// Ends a subscription when dropped.
#[derive(Debug)]
pub(super) struct SubscriptionGuard {
    pub(super) owner: Arc<Owner>,
    pub(super) id: u64,
}

impl Subscription for SubscriptionGuard {}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        if let Some(entry) = self.owner.shared.entries.lock().remove(&self.id) {
            entry.ended.cancel();
        }
    }
}

/// Returns a random number that need only differ between processes.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
