//! The feeder: fills the View from the log at the start and, over a shared log, follows the log's tail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, Key, LoadPart, Log, Record};

use crate::entry::{Entry, Indexer};
use crate::offload::offload;
use crate::view::{Change, View};

mod fill;

pub(crate) use self::fill::load;

/// Follows a shared log.
pub(crate) static FEEDER: ActorKind = ActorKind { name: "store.feeder", phase: Phase::Storage, ..ActorKind::DEFAULT };

/// How many records are applied at a time.
const RECORDS_PER_CHUNK: usize = 1024;
/// The pause after a failed read of the log.
const PAUSE_AFTER_READ_ERROR: Duration = Duration::from_millis(100);

fn change(record: Record, indexer: &dyn Indexer) -> Change {
    let Record { revision, key, prev, value } = record;
    let entry = value.map(|value| Arc::new(indexer.entry(&key, &value, revision)));
    Change { key, revision, prev, entry }
}

/// Replaces the state of a View in use by the log's current state, in one step, so that readers never see an older state. The watch windows are
/// emptied: watchers that have not received the missed events from another server must start again; all of them, when the log may hold `another`
/// history.
async fn reload(log: &Arc<dyn Log>, view: &View, indexer: &Arc<dyn Indexer>, another: bool) -> Result<(), Error> {
    let (view, indexer) = (view.clone(), Arc::clone(indexer));
    offload(log, move |log| async move {
        let mut state = BTreeMap::new();
        let mut each = |piece: LoadPart| {
            if let Some(record) = piece.record() {
                settle(&mut state, change(record, &*indexer));
            }
        };
        let loaded = log.load(&mut each).await?;
        if another || loaded.revision < view.applied() {
            view.reset(state.into_values(), loaded.revision);
        } else {
            view.skip_to(state.into_values(), loaded.revision);
        }
        Ok(())
    })
    .await?
}

/// Applies a change to a state.
fn settle(state: &mut BTreeMap<Key, Arc<Entry>>, change: Change) {
    match change.entry {
        Some(entry) => state.insert(change.key, entry),
        None => state.remove(&change.key),
    };
}

/// The feeder's parts, shared with its actor.
#[derive(Clone)]
pub(crate) struct Feeder {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) view: View,
    pub(crate) indexer: Arc<dyn Indexer>,
}

impl Feeder {
    /// Runs the actor's loop: follows the log from the View's revision; loads the state again after a hole or a compaction.
    pub(crate) async fn run(self, ctx: LoopCtx) -> Result<(), Failure> {
        let mut reported_at = None;
        while !ctx.is_stopping() {
            let error = match ctx.or_stop(self.follow()).await {
                None => return Ok(()),
                Some(error) => error,
            };
            // A log that stays unavailable is reported once.
            let at = self.view.applied();
            if reported_at.replace(at) == Some(at) {
                tracing::debug!(%error, "the view is still without the log's tail");
            } else {
                tracing::warn!(%error, "the view lost the log's tail");
            }
            match error {
                Error::Dead => return Err(error.into()),
                Error::Compacted { .. } | Error::Corrupt(_) => {
                    // Below the new floor no history is known any more.
                    let another = matches!(error, Error::Corrupt(_));
                    let again = if seeded_bug!("reload_goes_back") {
                        load(&self.log, &self.view, &self.indexer).await.map(drop)
                    } else {
                        reload(&self.log, &self.view, &self.indexer, another).await
                    };
                    if let Err(error) = again {
                        tracing::warn!(%error, "the view cannot be loaded again yet");
                        ctx.sleep(PAUSE_AFTER_READ_ERROR).await;
                    }
                }
                _ => {
                    ctx.sleep(PAUSE_AFTER_READ_ERROR).await;
                }
            }
        }
        Ok(())
    }

    /// Applies the log's tail until an error occurs, and returns the error.
    async fn follow(&self) -> Error {
        let mut last = self.view.applied();
        let mut tail = match self.log.tail(last).await {
            Ok(tail) => tail,
            Err(error) => return error,
        };
        loop {
            let batch = match tail.next(RECORDS_PER_CHUNK).await {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            // The log may repeat records; those at or below the last revision are skipped. Writes of one revision are in one batch.
            let new = batch.records.into_iter().filter(|record| record.revision > last);
            let changes: Vec<Change> = new.map(|record| change(record, &*self.indexer)).collect();
            last = changes.last().map_or(last, |change| change.revision);
            if let Err(error) = self.view.take(&changes).await {
                return error;
            }
            last = last.max(batch.progress);
            self.advance(batch.progress);
        }
    }

    fn advance(&self, progress: Revision) {
        self.view.advance(progress);
    }
}
