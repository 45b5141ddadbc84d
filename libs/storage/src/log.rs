//! The [`Log`] trait: one total order of compare-and-swap writes, with the same behaviour on every backend.
//!
//! One test suite checks the contract on all backends:
//! 1. Revisions strictly rise and never repeat, also across restarts. Gaps are allowed.
//! 2. [`Outcome::Committed`] means durable as the backend defines it.
//! 3. A tail after revision `r` yields every record above `r` once and in order, or fails with [`Error::Compacted`].
//! 4. Each record names the revision it replaced, so that a reader can detect a missing record.
//! 5. An unknown outcome is a value, never an error, and the log never retries such a write.
//! 6. A group is written completely or not at all. In a shared log all writes of a group may have one revision.

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_meta::Revision;

use crate::{Error, Key};

/// An object as stored: canonical JSON without `resourceVersion`. The log never parses a value.
pub type Value = Bytes;

/// The state that a write requires of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
    /// Any state; a delete still requires that the key exists.
    Any,
}

/// A second compare in the same commit: the write succeeds only while the writer's claim is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The object that records the claim (an `Assignment`).
    pub key: Key,
    /// The revision at which the writer read the claim: the writer's epoch.
    pub at: Revision,
}

/// One write of one key.
#[derive(Clone, Debug)]
pub struct Append {
    /// The key written.
    pub key: Key,
    /// Required current state of the key.
    pub expect: Expect,
    /// The new value; `None` deletes.
    pub value: Option<Value>,
    /// The claim that must be unchanged, if any.
    pub fence: Option<Fence>,
}

impl Append {
    /// Builds a write that creates the key.
    #[must_use]
    pub fn create(key: Key, value: Value) -> Self {
        Self { key, expect: Expect::Absent, value: Some(value), fence: None }
    }

    /// Builds a write that replaces the value last written at `at`.
    #[must_use]
    pub fn update(key: Key, at: Revision, value: Value) -> Self {
        Self { key, expect: Expect::At(at), value: Some(value), fence: None }
    }

    /// Builds a write that deletes the value last written at `at`.
    #[must_use]
    pub fn delete(key: Key, at: Revision) -> Self {
        Self { key, expect: Expect::At(at), value: None, fence: None }
    }

    /// Adds a fence to the write.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// Which of a write's two compares failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The key is not in the state that the write expected.
    Head,
    /// The claim of the write's [`Fence`] was changed or deleted.
    Fence,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable, at this revision.
    Committed(Revision),
    /// Not written.
    Rejected {
        /// Last revision of the key that failed the compare (the fence's key for [`Cause::Fence`]); `None` when that key does not exist.
        current: Option<Revision>,
        /// Which compare failed.
        cause: Cause,
    },
    /// The write may or may not have been made; only the tail shows which.
    Unknown,
}

/// Result of an atomic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// Durable; one revision per write, in the group's order.
    Committed(Vec<Revision>),
    /// Nothing was written.
    Rejected {
        /// The first write of the group that failed its compare.
        index: usize,
        /// As in [`Outcome::Rejected`].
        current: Option<Revision>,
        /// Which compare failed.
        cause: Cause,
    },
    /// The whole group was written, or nothing; only the tail shows which.
    Unknown,
}

impl GroupOutcome {
    /// Converts the result of a group of one write.
    #[must_use]
    pub fn single(&self) -> Outcome {
        match self {
            Self::Committed(revisions) => revisions.first().map_or(Outcome::Unknown, |r| Outcome::Committed(*r)),
            Self::Rejected { current, cause, .. } => Outcome::Rejected { current: *current, cause: *cause },
            Self::Unknown => Outcome::Unknown,
        }
    }
}

/// One committed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position of the write in the total order.
    pub revision: Revision,
    /// The key written.
    pub key: Key,
    /// The revision that this write replaced; `None` when the key did not exist.
    pub prev: Option<Revision>,
    /// The value; `None` for a delete.
    pub value: Option<Value>,
}

/// One piece of the data that [`Log::load`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadPart {
    /// A record of the state. When several have the same key, the last counts. Their `prev` is meaningless.
    State(Record),
    /// Marks the end of the state and names its revision; history follows.
    Floor(Revision),
    /// The next write in the log's order. These records fill the watch window at start.
    History(Record),
}

impl LoadPart {
    /// The record of this piece, if any.
    #[must_use]
    pub fn record(self) -> Option<Record> {
        match self {
            Self::State(record) | Self::History(record) => Some(record),
            Self::Floor(_) => None,
        }
    }

    /// Length in bytes of the piece's value.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::State(record) | Self::History(record) => record.value.as_ref().map_or(0, Bytes::len),
            Self::Floor(_) => 0,
        }
    }

    /// Splits records that arrive in the log's order into state and history at the given floor.
    pub(crate) fn of(floor: Revision, each: &mut dyn FnMut(Self)) -> impl FnMut(Record) {
        let mut below = true;
        move |record| {
            if record.revision <= floor {
                return each(Self::State(record));
            }
            if std::mem::take(&mut below) {
                each(Self::Floor(floor));
            }
            each(Self::History(record));
        }
    }
}

/// Result of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The revision reached after all pieces.
    pub revision: Revision,
    /// The revision of the state, before any history.
    pub floor: Revision,
}

/// Consecutive records of the total order.
#[derive(Clone, Debug, Default)]
pub struct TailBatch {
    /// The records, in order; empty when the batch only reports progress.
    pub records: Vec<Record>,
    /// The revision up to which all records have been delivered.
    pub progress: Revision,
}

/// A reader of the log's total order.
#[async_trait]
pub trait Tail: Send {
    /// Waits for the next records, at most `max` of them. Cancel safe.
    ///
    /// # Errors
    /// [`Error::Compacted`] when a trim passed this reader. After any error the reader must be dropped.
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error>;
}

/// Which processes may write to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this process, through this value. Outcomes are exact and complete, so they may update a View directly.
    Exclusive,
    /// Other processes too, or outcomes may be unknown: only the tail shows all writes.
    Shared,
}

/// Condition of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the log accepts creates and updates.
    pub writable: bool,
    /// Whether a fatal fault happened; the log no longer answers.
    pub dead: bool,
    /// The revision of the last committed write.
    pub revision: Revision,
    /// The oldest revision from which a tail can start.
    pub floor: Revision,
    /// Bytes of values that only history needs (superseded values and tombstones above the floor).
    pub history_bytes: u64,
    /// Bytes that the log occupies on its storage.
    pub stored_bytes: u64,
}

/// A durable, totally ordered log of compare-and-swap writes.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Commits groups and returns one answer per group. A group of several writes is atomic. Later groups see the effects of earlier groups on their keys. An exclusive log
    /// makes all groups in one durable step, in order.
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>>;

    /// Opens a reader of all records above `after`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when `after` is below the floor.
    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error>;

    /// Passes a state and the history since to `each`; applied in that order, they give the current state.
    ///
    /// # Errors
    /// Any read failure; `each` may already have been called.
    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error>;

    /// Returns the value that a key was given at exactly this revision; `None` when the key was not written there, was deleted there, or the version was trimmed.
    ///
    /// # Errors
    /// Any read failure.
    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error>;

    /// Returns a revision at or above every write that any process had acknowledged before the call began.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Dead`] when freshness cannot be proven.
    async fn barrier(&self) -> Result<Revision, Error>;

    /// Deletes versions superseded at or below `revision` and raises the floor to it. A revision below the floor has no effect.
    ///
    /// # Errors
    /// [`Error::Future`] for a revision above the current one.
    async fn trim(&self, revision: Revision) -> Result<(), Error>;

    /// Returns the newest compaction that any process has recorded: the revision below which no state can be read from the log. [`Health::floor`] is the
    /// newest one that this process knows without I/O.
    ///
    /// # Errors
    /// Any read failure.
    async fn compacted(&self) -> Result<Revision, Error> {
        Ok(self.health().floor)
    }

    /// Makes every later revision greater than `to` and declares all history up to now compacted. Used to restore a snapshot while clients hold revisions of another history.
    /// Stored objects stay but may get other revisions, so readers must load again.
    ///
    /// # Errors
    /// As for a write.
    async fn raise(&self, to: Revision) -> Result<(), Error>;

    /// Returns the condition of the log without I/O.
    fn health(&self) -> Health;

    /// Returns which processes may write.
    fn sharing(&self) -> Sharing;

    /// Whether calls block the calling thread on the disk, so that async code must call from a blocking thread.
    fn blocks(&self) -> bool {
        false
    }

    /// Commits one write alone.
    ///
    /// # Errors
    /// See [`Error`]; every error means that the write was not made.
    async fn append(&self, append: Append) -> Result<Outcome, Error> {
        self.commit(vec![vec![append]]).await.pop().map_or(Err(Error::Dead), |r| r.map(|group| group.single()))
    }

    /// Commits independent writes in one durable step, with one answer each.
    async fn append_batch(&self, appends: Vec<Append>) -> Vec<Result<Outcome, Error>> {
        let groups = appends.into_iter().map(|append| vec![append]).collect();
        self.commit(groups).await.into_iter().map(|r| r.map(|group| group.single())).collect()
    }

    /// Commits writes of different resources atomically.
    ///
    /// # Errors
    /// [`Error::SameResource`] for two keys of one resource; otherwise as for [`Log::append`].
    async fn append_atomic(&self, appends: Vec<Append>) -> Result<GroupOutcome, Error> {
        self.commit(vec![appends]).await.pop().unwrap_or(Err(Error::Dead))
    }
}
