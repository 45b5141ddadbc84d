//! Fills a log with a snapshot's objects.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::{Stream, StreamExt};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::Object;
use crate::{Append, Error, Expect, Key, Log, Outcome};

/// Writes made in one step, and bytes of values in them.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Why a snapshot was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The log is no empty one.
    #[error("the store holds {count} objects already, {example} among them")]
    NotEmpty {
        /// How many.
        count: usize,
        /// One of them.
        example: Key,
    },
    /// The objects cannot be read; some may have been written.
    #[error("the objects to restore: {0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The log failed; some may have been written.
    #[error(transparent)]
    Log(#[from] Error),
    /// A write was not made, or nobody knows; some may have been written.
    #[error("{key} could not be written: {outcome:?}")]
    Write {
        /// The key.
        key: Key,
        /// What became of it.
        outcome: Outcome,
    },
}

/// Lets a log hold these objects and no others. Every revision that it hands out afterwards is above `above`, and whatever was before counts as
/// compacted. Returns its revision.
///
/// Nobody else may write meanwhile.
///
/// # Errors
/// [`RestoreError::NotEmpty`] unless told to `overwrite`; the others leave a part.
pub async fn restore<E: std::error::Error + Send + Sync + 'static>(
    log: &dyn Log,
    above: Revision,
    overwrite: bool,
    objects: impl Stream<Item = Result<Object, E>>,
) -> Result<Revision, RestoreError> {
    let mut there = BTreeSet::new();
    let mut each = |piece: crate::Piece| match piece.record() {
        Some(record) if record.value.is_some() => drop(there.insert(record.key)),
        Some(record) => drop(there.remove(&record.key)),
        None => {}
    };
    log.load(&mut each).await?;
    if let Some(example) = there.first().filter(|_| !overwrite) {
        return Err(RestoreError::NotEmpty { count: there.len(), example: example.clone() });
    }
    // Before the first write: also who looks in between sees no revision that was handed out before.
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
    // The restored objects are no events that anybody missed: who knows an older state must read all of it anew.
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
        if self.appends.len() < BATCH && self.bytes < BATCH_BYTES { Ok(()) } else { self.write(log).await }
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
