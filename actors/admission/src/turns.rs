//! Turns: requests that would write the same companion object run one after the other, first come first served.
//!
//! A turn is an optimisation and not a lock: correctness comes from the compare-and-swap at commit. Without turns, of many requests that charge one
//! quota all but one would lose each round, and some would lose again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use tokio::sync::{Mutex as TurnLock, OwnedMutexGuard};

/// The right to write now; released when dropped.
#[derive(Debug)]
pub struct QueueGuard {
    _lock: OwnedMutexGuard<()>,
    _place: Place,
}

/// The queues of waiting requests, by name. A queue exists only while a request is in it, so that memory does not grow with the names.
#[derive(Debug, Default)]
pub struct KeyedQueues {
    queues: Arc<Mutex<HashMap<String, Queue>>>,
}

/// The queue of one name.
#[derive(Debug, Default)]
struct Queue {
    lock: Arc<TurnLock<()>>,
    /// Number of requests that wait for the turn or hold it.
    requests: usize,
}

/// The place of a request in a queue; given back when dropped.
#[derive(Debug)]
struct Place {
    queues: Arc<Mutex<HashMap<String, Queue>>>,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.name) else { return };
        queue.requests -= 1;
        if queue.requests == 0 {
            queues.remove(&self.name);
        }
    }
}

impl KeyedQueues {
    /// Creates an empty set of queues.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the turn of a name, at most `patience`; `None` when the turn did not come in time.
    pub async fn take(&self, name: &str, patience: Duration) -> Option<QueueGuard> {
        let name = if seeded_bug!("names_share_turns") { "" } else { name };
        let (place, lock) = self.enter(name);
        let lock = clock::timeout(patience, lock.lock_owned()).await.ok()?;
        Some(QueueGuard { _lock: lock, _place: place })
    }

    fn enter(&self, name: &str) -> (Place, Arc<TurnLock<()>>) {
        let mut queues = self.queues.lock();
        let queue = queues.entry(name.to_owned()).or_default();
        queue.requests += 1;
        (Place { queues: Arc::clone(&self.queues), name: name.to_owned() }, Arc::clone(&queue.lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_turn_begins_when_the_last_one_ends() {
        let turns = KeyedQueues::new();
        let first = turns.take("a", Duration::from_secs(1)).await;
        assert!(first.is_some());
        assert!(turns.take("a", Duration::from_secs(1)).await.is_none(), "patience ends");
        drop(first);
        assert!(turns.take("a", Duration::from_secs(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_name_waits_for_another_and_none_is_kept() {
        let turns = KeyedQueues::new();
        let mut held = Vec::new();
        for name in 0..1_000 {
            held.push(turns.take(&name.to_string(), Duration::ZERO).await.expect("its first turn"));
        }
        assert!(turns.take("7", Duration::from_secs(1)).await.is_none());
        assert_eq!(turns.queues.lock().len(), 1_000);
        drop(held);
        assert!(turns.queues.lock().is_empty());
    }
}
