//! A tail for backends that can be queried for the records after a revision.

use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Revision;
use tokio::sync::watch;

use crate::{Error, Record, Tail, TailBatch};

/// History of a backend, readable from any revision above the floor.
pub(crate) trait Past: Send + Sync + 'static {
    /// Returns the records above `after`, oldest first, at most `max`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when `after` is below the floor.
    fn after(&self, after: Revision, max: usize) -> Result<Vec<Record>, Error>;
}

/// A tail that queries the backend whenever the backend's last revision moves.
pub(crate) struct Follower<P> {
    past: Arc<P>,
    tip: watch::Receiver<Revision>,
    after: Revision,
}

impl<P: Past> Follower<P> {
    /// Follows `past` from `after`; `tip` carries the last durable revision.
    pub(crate) fn new(past: Arc<P>, tip: watch::Receiver<Revision>, after: Revision) -> Self {
        Self { past, tip, after }
    }
}

#[async_trait]
impl<P: Past> Tail for Follower<P> {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        let after = self.after;
        let tip = *self.tip.wait_for(|tip| *tip > after).await.map_err(|_| Error::Dead)?;
        let records = self.past.after(after, max.max(1))?;
        // After a trim there may be no record between the tail's start and the tip; then the tip is the progress.
        self.after = records.last().map_or(tip, |record| record.revision);
        Ok(TailBatch { records, progress: self.after })
    }
}
