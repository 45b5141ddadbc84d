//! State that outlives single connections: listeners and the connection state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Dialer, ServerEvent};
use super::listener::Listener;
use super::options::Spawn;
use super::pump;
use super::random::random;
use crate::link::Link;
use crate::queue::Queue;
use crate::role::Identity;
use crate::stats::Stats;
use crate::subject::Pattern;
use crate::subjects::{Kind, QUEUE_GROUP, Traffic};
use crate::transport::DEFAULT_MAX_PAYLOAD;

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
    listeners: Mutex<BTreeMap<u64, Arc<Listener>>>,
    numbers: AtomicU64,
    stats: Arc<Stats>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("identity", &self.identity).field("link", &self.link).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(dialer: Dialer, spawn: Arc<dyn Spawn>, identity: Identity, stats: Arc<Stats>) -> Self {
        Self {
            dialer,
            spawn,
            identity,
            link: Link::new(),
            max_payload: DEFAULT_MAX_PAYLOAD.into(),
            process: random() | 1,
            unused: CancellationToken::new(),
            connection: Mutex::default(),
            listeners: Mutex::default(),
            numbers: AtomicU64::new(0),
            stats,
        }
    }

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

    pub(super) fn add_listener(&self, pattern: &Pattern, queue: Arc<Queue>) -> Arc<Listener> {
        let listener = Arc::new(Listener::new(self.next(), pattern, queue));
        self.listeners.lock().insert(listener.id, listener.clone());
        listener
    }

    pub(super) fn end_listener(&self, id: u64) {
        if let Some(listener) = self.listeners.lock().remove(&id) {
            listener.ended.cancel();
        }
    }

    pub(super) fn listeners(&self) -> Vec<Arc<Listener>> {
        self.listeners.lock().values().cloned().collect()
    }

    /// Subscribes a listener on a connection, unless already done.
    pub(super) async fn attach(&self, connection: &Arc<Connection>, listener: &Arc<Listener>) {
        if !listener.move_to(connection.id) {
            return;
        }
        let (client, pattern) = (&connection.client, listener.pattern.as_str().to_owned());
        let subscriber = match listener.pattern.row().group {
            true => client.queue_subscribe(pattern, QUEUE_GROUP.to_owned()).await,
            false => client.subscribe(pattern).await,
        };
        match subscriber {
            Ok(subscriber) => {
                self.spawn.spawn(Box::pin(pump::messages(connection.clone(), subscriber, listener.clone())));
            }
            // The client has ended and with it the connection; the next connection includes the subscription.
            Err(error) => {
                tracing::debug!(pattern = %listener.pattern, %error, "not subscribed");
                connection.ended.cancel();
            }
        }
    }

    /// Reports to all hint listeners that an unknown number of hints was lost.
    fn miss(&self) {
        let listeners = self.listeners();
        listeners
            .iter()
            .filter(|listener| listener.pattern.row().carries == Traffic::Hints)
            .for_each(|listener| listener.queue.miss());
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
