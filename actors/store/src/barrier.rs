//! "Most recent" reads: a freshness proof that began after the read arrived, shared by all waiting reads.
//!
//! At any time at most one barrier runs and one is queued. A read that arrives while a barrier runs must not use that barrier, which may have begun
//! before an acknowledged write the client knows of; all such reads share the next barrier.

use std::sync::Arc;

use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, Log};
use parking_lot::Mutex;

use crate::offload::offload;

#[derive(Debug, Default)]
struct Turns {
    begun: u64,
    done: u64,
    revision: Revision,
}

/// Shares calls of [`Log::barrier`] among concurrent reads.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    turns: Mutex<Turns>,
    runner: tokio::sync::Mutex<()>,
}

impl Barrier {
    /// Returns a revision at or above every write acknowledged before this call.
    pub(crate) async fn pass(&self, log: &Arc<dyn Log>) -> Result<Revision, Error> {
        // Only a barrier that begins after this point may be used.
        let begun = self.turns.lock().begun;
        let wanted = if seeded_bug!("barrier_joined_in_flight") { begun.max(1) } else { begun + 1 };
        let _running = self.runner.lock().await;
        let begun = {
            let mut turns = self.turns.lock();
            if turns.done >= wanted {
                return Ok(turns.revision);
            }
            turns.begun += 1;
            turns.begun
        };
        let revision = offload(log, |log| async move { log.barrier().await }).await??;
        let mut turns = self.turns.lock();
        turns.done = begun;
        turns.revision = turns.revision.max(revision);
        Ok(revision)
    }
}
