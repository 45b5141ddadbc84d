//! "Most recent" reads: a proof of freshness that began after the read arrived, shared by all who wait for one.
//!
//! However many reads arrive, one barrier runs and one is queued: who arrives while one runs must not use it (it may
//! have begun before an acknowledged write the reader knows of), so all of those share the next.

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

/// The gate in front of [`Log::barrier`].
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    turns: Mutex<Turns>,
    runner: tokio::sync::Mutex<()>,
}

impl Barrier {
    /// A revision at or above every write acknowledged before this call.
    pub(crate) async fn pass(&self, log: &Arc<dyn Log>) -> Result<Revision, Error> {
        // The next one to begin is the first that begins after now.
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
