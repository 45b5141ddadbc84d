//! Requests to the committer, and the pure conversion of a batch into changes and answers.

use std::sync::Arc;

use hashbrown::HashMap;
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, clock};
use oarlock_storage::{Append, Expect, GroupOutcome, Key};
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use tokio::sync::oneshot;

use crate::entry::{Entry, EntryParts, Indexer};
use crate::error::WriteError;
use crate::view::{Change, View};

/// One write, with the parts of its entry if the writer knows them.
#[derive(Clone, Debug)]
pub struct Write {
    /// The append to the log.
    pub append: Append,
    /// The parts of the new entry; `None` lets the [`Indexer`] extract them.
    pub parts: Option<EntryParts>,
}

impl Write {
    /// Creates a write whose entry the indexer builds.
    #[must_use]
    pub fn new(append: Append) -> Self {
        Self { append, parts: None }
    }

    /// Creates a write whose value is not parsed again.
    #[must_use]
    pub fn with_parts(append: Append, parts: EntryParts) -> Self {
        Self { append, parts: Some(parts) }
    }

    pub(crate) fn entry(&self, revision: Revision, indexer: &dyn Indexer) -> Option<Arc<Entry>> {
        let value = self.append.value.as_ref()?;
        let key = &self.append.key;
        Some(Arc::new(match &self.parts {
            Some(parts) => Entry::new(key.clone(), value, revision, parts.clone()),
            None => indexer.entry(key, value, revision),
        }))
    }
}

/// The entries of a group of writes, in order; for a delete the last state under the revision of the deletion.
pub(crate) type Answer = Result<Vec<Arc<Entry>>, WriteError>;

/// A group of writes in the committer's queue.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) writes: Vec<Write>,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) deadline: Instant,
    /// The caller's span; invalid outside every span.
    pub(crate) span: SpanContext,
}

impl Request {
    pub(crate) fn appends(&self) -> Vec<Append> {
        self.writes.iter().map(|write| write.append.clone()).collect()
    }

    /// Whether the caller still waits for the answer.
    pub(crate) fn is_wanted(&self) -> bool {
        self.deadline > clock::now() && !self.reply.is_closed()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.writes.iter().filter_map(|write| write.append.value.as_ref()).map(bytes::Bytes::len).sum()
    }

    /// Answers the request; a caller that has stopped waiting is no error.
    pub(crate) fn answer(self, answer: Answer) {
        let _closed = self.reply.send(answer);
    }
}

/// Returns the changes of a batch's committed groups, in the log's order.
pub(crate) fn changes(
    requests: &[Request],
    outcomes: &[Result<GroupOutcome, oarlock_storage::Error>],
    view: &View,
    indexer: &dyn Indexer,
) -> Vec<Change> {
    let mut changes = Vec::with_capacity(requests.len());
    let mut ahead: HashMap<Key, Option<Revision>, foldhash::fast::FixedState> = HashMap::default();
    for (request, outcome) in requests.iter().zip(outcomes) {
        let Ok(GroupOutcome::Committed(revisions)) = outcome else { continue };
        for (write, revision) in request.writes.iter().zip(revisions) {
            let append = &write.append;
            let prev = match append.expect {
                Expect::Absent => None,
                Expect::At(revision) => Some(revision),
                Expect::Any => match ahead.get(&append.key) {
                    Some(ahead) => *ahead,
                    None => view.get(&append.key).map(|entry| entry.revision),
                },
            };
            let entry = write.entry(*revision, indexer);
            ahead.insert(append.key.clone(), entry.as_ref().map(|_| *revision));
            changes.push(Change { key: append.key.clone(), revision: *revision, prev, entry });
        }
    }
    changes
}

/// Answers a batch whose changes the View has applied; `entries` are the changes' entries, in order.
pub(crate) fn answer(
    requests: Vec<Request>,
    outcomes: Vec<Result<GroupOutcome, oarlock_storage::Error>>,
    entries: Vec<Arc<Entry>>,
) {
    let mut entries = entries.into_iter();
    for (request, outcome) in requests.into_iter().zip(outcomes) {
        let answer = match outcome {
            Ok(GroupOutcome::Committed(revisions)) => Ok(entries.by_ref().take(revisions.len()).collect()),
            Ok(GroupOutcome::Rejected { index, current, cause }) => Err(WriteError::Conflict { index, current, cause }),
            Ok(GroupOutcome::Unknown) => Err(WriteError::Unknown),
            Err(error) => Err(error.into()),
        };
        request.answer(answer);
    }
}
