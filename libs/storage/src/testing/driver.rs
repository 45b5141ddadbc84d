//! A caller of a log that resolves each unknown outcome before its next write.
//!
//! The contract suite uses this driver as the log's only writer, so that one suite fits clean and faulty logs. The driver shares no code with the store's own resolution of
//! unknown outcomes.

use std::sync::Arc;

use oarlock_meta::Revision;

use crate::{Append, Error, GroupOutcome, LoadPart, Loaded, Log, Outcome, Record, TailBatch};

/// Attempts before a temporary fault counts as a permanent one.
const MAX_ATTEMPTS: usize = 200;

/// A driver of one log.
#[derive(Clone)]
pub struct Driver {
    /// The driven log.
    pub log: Arc<dyn Log>,
}

impl Driver {
    /// Creates a driver, which must be the log's only writer.
    #[must_use]
    pub fn new(log: Arc<dyn Log>) -> Self {
        Self { log }
    }

    /// Commits one write.
    ///
    /// # Errors
    /// Any error of the log; [`Error::Unavailable`] only when the fault persists.
    pub async fn one(&self, append: Append) -> Result<Outcome, Error> {
        Ok(self.group(vec![append]).await?.single())
    }

    /// Commits one atomic group.
    ///
    /// # Errors
    /// As [`Driver::one`].
    pub async fn group(&self, group: Vec<Append>) -> Result<GroupOutcome, Error> {
        self.batch(vec![group]).await.pop().unwrap_or(Err(Error::Dead))
    }

    /// Commits several groups; every outcome is known on return.
    pub async fn batch(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        for _ in 0..MAX_ATTEMPTS {
            let before = match self.barrier().await {
                Ok(before) => before,
                Err(error) => return groups.iter().map(|_| Err(error.clone())).collect(),
            };
            let outcomes = self.log.commit(groups.clone()).await;
            if outcomes.iter().any(|outcome| matches!(outcome, Err(Error::Unavailable(_)))) {
                continue;
            }
            if !outcomes.iter().any(|outcome| matches!(outcome, Ok(GroupOutcome::Unknown))) {
                return outcomes;
            }
            match self.find(&groups, before).await {
                Ok(None) => {}
                Ok(Some(found)) => return found,
                Err(error) => return groups.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        groups.iter().map(|_| Ok(GroupOutcome::Unknown)).collect()
    }

    /// Finds the outcome of groups whose answer was lost; `None` when nothing was written.
    async fn find(
        &self,
        groups: &[Vec<Append>],
        before: Revision,
    ) -> Result<Option<Vec<Result<GroupOutcome, Error>>>, Error> {
        // The barrier waits for all delayed commits.
        self.barrier().await?;
        let (records, _) = self.load().await?;
        let mut new: Vec<Record> = records.into_iter().filter(|record| record.revision > before).collect();
        if new.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for group in groups {
            let mut revisions = Vec::new();
            for append in group {
                let ours = |record: &Record| record.key == append.key && record.value == append.value;
                if let Some(at) = new.iter().position(ours) {
                    revisions.push(new.remove(at).revision);
                }
            }
            if !group.is_empty() && revisions.len() == group.len() {
                found.push(Ok(GroupOutcome::Committed(revisions)));
            } else {
                // The group was refused and will be refused again: there is no other writer.
                found.push(Box::pin(self.group(group.clone())).await);
            }
        }
        Ok(Some(found))
    }

    /// Runs a barrier, repeated while the log is unavailable.
    ///
    /// # Errors
    /// Any error of the log.
    pub async fn barrier(&self) -> Result<Revision, Error> {
        let mut last = Error::Dead;
        for _ in 0..MAX_ATTEMPTS {
            match self.log.barrier().await {
                Err(error @ Error::Unavailable(_)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// Loads every record, in order; records of the state have no predecessor.
    ///
    /// # Errors
    /// Any error of the log.
    pub async fn load(&self) -> Result<(Vec<Record>, Loaded), Error> {
        let (mut state, mut history) = (Vec::new(), Vec::new());
        let mut each = |piece| match piece {
            LoadPart::State(record) => state.push(Record { prev: None, ..record }),
            LoadPart::Floor(_) => {}
            LoadPart::History(record) => history.push(record),
        };
        let loaded = self.log.load(&mut each).await?;
        state.sort_by_key(|record| record.revision);
        state.append(&mut history);
        Ok((state, loaded))
    }

    /// Reads all records of a tail above `after` up to `until`, each once.
    ///
    /// # Errors
    /// Any error of the log, [`Error::Compacted`] included.
    pub async fn follow(&self, after: Revision, until: Revision) -> Result<Vec<Record>, Error> {
        let mut tail = self.log.tail(after).await?;
        let (mut records, mut seen): (Vec<Record>, Revision) = (Vec::new(), after);
        while seen < until {
            let TailBatch { records: new, progress } = tail.next(64).await?;
            for record in new {
                // Repeats are allowed. A step back to a record that was never delivered is an error and stays in the result, so that the check fails.
                let known = records.iter().any(|old| old.revision == record.revision && old.key == record.key);
                if !known {
                    records.push(record);
                }
            }
            seen = seen.max(progress);
        }
        Ok(records)
    }
}
