//! What outlives connections: who hears what, and whether there is a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Dialer, Said};
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

/// Held by all who use the bus; the connection ends with the last of them.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) spawn: Arc<dyn Spawn>,
    pub(super) identity: Identity,
    pub(super) link: Link,
    /// What the last server takes.
    pub(super) max_payload: AtomicUsize,
    /// A number that no other process has.
    pub(super) process: u64,
    /// Cancelled when nobody uses the bus any more.
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

/// Somebody who hears a pattern.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) pattern: Pattern,
    pub(super) queue: Arc<Queue>,
    /// Cancelled when it hears no more.
    pub(super) ended: CancellationToken,
    /// The connection that has it.
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
    /// A number above all that were given before.
    pub(super) fn next(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The connection, while there is one.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.lock().clone().filter(|connection| !connection.ended.is_cancelled())
    }

    /// A connection is about to be there: whoever begins to hear from now on puts its subscription on it.
    pub(super) fn adopt(&self, connection: &Arc<Connection>) {
        self.max_payload.store(connection.client.max_payload(), Ordering::Relaxed);
        *self.connection.lock() = Some(connection.clone());
    }

    /// It is there, and every subscription is on it.
    pub(super) fn connected(&self) -> u64 {
        self.miss();
        self.link.connected()
    }

    /// It is gone.
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

    /// Subscribes on a connection, unless that was done.
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
            // The client is gone, so the connection is; the next one takes the subscription along.
            Err(error) => {
                tracing::debug!(pattern = %entry.pattern, %error, "not subscribed");
                connection.ended.cancel();
            }
        }
    }

    /// Hints may have been missed, and nobody knows which.
    fn miss(&self) {
        let entries = self.entries();
        entries
            .iter()
            .filter(|entry| entry.pattern.row().carries == Carries::Hints)
            .for_each(|entry| entry.queue.miss());
    }

    /// What the server says besides messages.
    pub(super) fn said(&self, said: Said) {
        match said {
            Said::Slow => {
                tracing::warn!(member = %self.identity, "bus: messages were lost on their way into a queue");
                self.miss();
            }
            Said::Refused(text) => {
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

/// Ends a subscription when it is dropped.
#[derive(Debug)]
pub(super) struct Subscribed {
    pub(super) owner: Arc<Owner>,
    pub(super) id: u64,
}

impl Subscription for Subscribed {}

impl Drop for Subscribed {
    fn drop(&mut self) {
        if let Some(entry) = self.owner.shared.entries.lock().remove(&self.id) {
            entry.ended.cancel();
        }
    }
}

/// For what only has to differ between processes.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
