//! Turns: requests that would write the same companion object run one after the other, first come first served.
//!
//! A turn is an optimisation and not a lock: correctness comes from the compare-and-swap at commit. Without turns, of many requests that charge one
//! quota all but one would lose each round, and some would lose again and again.

use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::clock;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The number of queues. Names share queues by hash, so that memory does not grow with the names.
const QUEUES: usize = 64;

/// The right to write now; released when dropped.
#[derive(Debug)]
pub struct QueueGuard(#[expect(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

/// The queues of waiting requests, by name.
#[derive(Debug)]
pub struct KeyedQueues {
    queues: Vec<Arc<Mutex<()>>>,
}

impl Default for KeyedQueues {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyedQueues {
    /// Creates an empty set of queues.
    #[must_use]
    pub fn new() -> Self {
        Self { queues: (0..QUEUES).map(|_| Arc::default()).collect() }
    }

    /// Waits for the turn of a name, at most `patience`; `None` when the turn did not come in time.
    pub async fn take(&self, name: &str, patience: Duration) -> Option<QueueGuard> {
        let queue = self.queues.get(hash(name) % QUEUES)?;
        clock::timeout(patience, Arc::clone(queue).lock_owned()).await.ok().map(QueueGuard)
    }
}

/// Hashes a name with FNV-1a, which is the same in every run, so that simulations can be repeated.
fn hash(name: &str) -> usize {
    name.bytes()
        .fold(0x811c_9dc5_usize, |hash, byte| (hash ^ usize::from(byte)).wrapping_mul(0x0100_0193) & 0xffff_ffff)
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
        assert!(turns.take("b", Duration::from_secs(1)).await.is_some(), "another name need not wait");
        drop(first);
        assert!(turns.take("a", Duration::from_secs(1)).await.is_some());
    }
}
