//! Fills a log with a snapshot's objects.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::{Stream, StreamExt};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::Object;
use crate::{Append, Error, Expect, Key, Log, Outcome};

/// Bounds of one batch of writes: their number, and the bytes of their values.
const BATCH_WRITES: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Why a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The log already holds objects.
    #[error("the store holds {count} objects already, {example} among them")]
    NotEmpty {
        /// Number of objects in the log.
        count: usize,
        /// One of these objects.
        example: Key,
    },
    /// The snapshot cannot be read; some objects may already be written.
    #[error("the objects to restore: {0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The log failed; some objects may already be written.
    #[error(transparent)]
    Log(#[from] Error),
    /// A write was refused or its outcome is unknown; some objects may already be written.
    #[error("{key} could not be written: {outcome:?}")]
    Write {
        /// Key of the failed write.
        key: Key,
        /// Outcome of the failed write.
        outcome: Outcome,
    },
}

/// Replaces the log's content by these objects and returns the log's revision. Every later revision is above `above`, and all earlier history counts as compacted.
///
/// No other process may write during the call.
///
/// # Errors
/// [`RestoreError::NotEmpty`] for a log with objects unless `overwrite` is set; after any other error the log may hold part of the objects.
pub async fn restore<E: std::error::Error + Send + Sync + 'static>(
    log: &dyn Log,
    above: Revision,
    overwrite: bool,
    objects: impl Stream<Item = Result<Object, E>>,
) -> Result<Revision, RestoreError> {
    let mut there = BTreeSet::new();
    let mut each = |piece: crate::LoadPart| match piece.record() {
        Some(record) if record.value.is_some() => drop(there.insert(record.key)),
        Some(record) => drop(there.remove(&record.key)),
        None => {}
    };
    log.load(&mut each).await?;
    if let Some(example) = there.first().filter(|_| !overwrite) {
        return Err(RestoreError::NotEmpty { count: there.len(), example: example.clone() });
    }
    // Before the first write: a concurrent reader must not see a revision that was handed out earlier.
    if !seeded_bug!("restored_revision_falls") {
        log.raise(above).await?;
    }
    let mut batch = Batch::default();
    let mut objects = pin!(objects);
    while let Some(object) = objects.next().await {
        let Object { key, value, .. } = object.map_err(|error| RestoreError::Source(Box::new(error)))?;
        there.remove(&key);
        batch.add(log, key, Some(value)).await?;
    }
    for key in there {
        batch.add(log, key, None).await?;
    }
    batch.write(log).await?;
    // The restored objects are not events: a client that knows an older state must list all objects again.
    let now = log.barrier().await?;
    log.raise(now).await?;
    Ok(log.barrier().await?)
}

#[derive(Default)]
struct Batch {
    appends: Vec<Append>,
    bytes: usize,
}

impl Batch {
    async fn add(&mut self, log: &dyn Log, key: Key, value: Option<bytes::Bytes>) -> Result<(), RestoreError> {
        self.bytes += value.as_ref().map_or(0, bytes::Bytes::len);
        self.appends.push(Append { key, expect: Expect::Any, value, fence: None });
        if self.appends.len() < BATCH_WRITES && self.bytes < BATCH_BYTES { Ok(()) } else { self.write(log).await }
    }

    async fn write(&mut self, log: &dyn Log) -> Result<(), RestoreError> {
        let appends = std::mem::take(&mut self.appends);
        self.bytes = 0;
        let keys: Vec<Key> = appends.iter().map(|append| append.key.clone()).collect();
        for (key, outcome) in keys.into_iter().zip(log.append_batch(appends).await) {
            match outcome? {
                Outcome::Committed(_) => {}
                outcome => return Err(RestoreError::Write { key, outcome }),
            }
        }
        Ok(())
    }
}
