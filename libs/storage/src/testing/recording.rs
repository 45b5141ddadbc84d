//! A log wrapper that records every committed write, also beyond a trim, as ground truth for checkers.

use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Revision;
use parking_lot::Mutex;

use crate::{Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Sharing, Tail, Value};

/// Committed writes, in order, without their predecessors.
pub type History = Arc<Mutex<Vec<(Revision, Key, Option<Value>)>>>;

/// A [`Log`] that records every committed write.
pub struct RecordingLog {
    inner: Arc<dyn Log>,
    history: History,
}

impl RecordingLog {
    /// Wraps a log.
    #[must_use]
    pub fn new(inner: Arc<dyn Log>) -> Self {
        Self { inner, history: History::default() }
    }

    /// Returns the recorded writes.
    #[must_use]
    pub fn history(&self) -> History {
        Arc::clone(&self.history)
    }
}

#[async_trait]
impl Log for RecordingLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let outcomes = self.inner.commit(groups.clone()).await;
        let mut history = self.history.lock();
        for (group, outcome) in groups.into_iter().zip(&outcomes) {
            if let Ok(GroupOutcome::Committed(revisions)) = outcome {
                let writes = group.into_iter().zip(revisions);
                history.extend(writes.map(|(append, revision)| (*revision, append.key, append.value)));
            }
        }
        outcomes
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        self.inner.tail(after).await
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        self.inner.load(each).await
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        self.inner.body(key, revision).await
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.inner.barrier().await
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        self.inner.trim(revision).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.inner.compacted().await
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.inner.raise(to).await
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn blocks(&self) -> bool {
        self.inner.blocks()
    }
}
