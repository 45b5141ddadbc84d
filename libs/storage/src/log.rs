//! The `Log`: one total order of compare-and-swap writes, which every backend offers with the same behaviour.
//!
//! The contract, checked by one suite on all backends:
//! 1. Revisions strictly rise and never repeat, over restarts too. Gaps are legal.
//! 2. [`Outcome::Committed`] means durable in the backend's class.
//! 3. A tail after `r` yields every record above `r` once and in order, or fails with [`Error::Compacted`].
//! 4. Each record names its predecessor, so that a hole can be seen.
//! 5. An unknown outcome is a value, never an error, and never retried here.
//! 6. A group is written whole or not at all. Where the log is shared its writes may have one revision in common.

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_meta::Revision;

use crate::{Error, Key};

/// An object as stored: canonical JSON without `resourceVersion`. The log never looks inside.
pub type Value = Bytes;

/// What a write demands of the key's current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
    /// Anything; a delete still needs something to delete.
    Any,
}

/// A second compare in the same commit: the writer's claim is still the one it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The object that records the claim (an `Assignment`).
    pub key: Key,
    /// The revision at which the writer saw it; its epoch.
    pub at: Revision,
}

/// One write of one key.
#[derive(Clone, Debug)]
pub struct Append {
    /// The key written.
    pub key: Key,
    /// What its current state must be.
    pub expect: Expect,
    /// The new value; `None` deletes.
    pub value: Option<Value>,
    /// The claim under which it is written, if any.
    pub fence: Option<Fence>,
}

impl Append {
    /// A write that creates the key.
    #[must_use]
    pub fn create(key: Key, value: Value) -> Self {
        Self { key, expect: Expect::Absent, value: Some(value), fence: None }
    }

    /// A write that replaces the value last written at `at`.
    #[must_use]
    pub fn update(key: Key, at: Revision, value: Value) -> Self {
        Self { key, expect: Expect::At(at), value: Some(value), fence: None }
    }

    /// A write that deletes the value last written at `at`.
    #[must_use]
    pub fn delete(key: Key, at: Revision) -> Self {
        Self { key, expect: Expect::At(at), value: None, fence: None }
    }

    /// The same write under a claim.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// Which of a write's two compares failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The key is not in the state the write expected.
    Head,
    /// The claim of the write's [`Fence`] is not the current one.
    Fence,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable, at this revision.
    Committed(Revision),
    /// Not written.
    Rejected {
        /// The revision of the key that failed the compare (the fence's for [`Cause::Fence`]); `None`: it does not exist.
        current: Option<Revision>,
        /// Which compare failed.
        cause: Cause,
    },
    /// Written or not; only the tail can tell.
    Unknown,
}

/// How an atomic group ended.
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
    /// Written whole or not at all; only the tail can tell.
    Unknown,
}

impl GroupOutcome {
    /// The outcome of a group of one.
    #[must_use]
    pub fn single(&self) -> Outcome {
        match self {
            Self::Committed(revisions) => revisions.first().map_or(Outcome::Unknown, |r| Outcome::Committed(*r)),
            Self::Rejected { current, cause, .. } => Outcome::Rejected { current: *current, cause: *cause },
            Self::Unknown => Outcome::Unknown,
        }
    }
}

/// One committed write, as the log remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the total order.
    pub revision: Revision,
    /// The key written.
    pub key: Key,
    /// The revision it replaced; `None` when the key did not exist.
    pub prev: Option<Revision>,
    /// The value; `None` for a delete.
    pub value: Option<Value>,
}

/// A part of what a load reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Part of a state: of several for one key the last counts. Their predecessors mean nothing.
    State(Record),
    /// The state is complete, and of this revision; history follows.
    Floor(Revision),
    /// The next write, in the log's order: a warm watch window.
    History(Record),
}

impl Piece {
    /// The record in it.
    #[must_use]
    pub fn record(self) -> Option<Record> {
        match self {
            Self::State(record) | Self::History(record) => Some(record),
            Self::Floor(_) => None,
        }
    }

    /// Bytes of the value in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::State(record) | Self::History(record) => record.value.as_ref().map_or(0, Bytes::len),
            Self::Floor(_) => 0,
        }
    }

    /// Tells records that come in the log's order apart by its floor.
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

/// What a load ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The revision the pieces lead to.
    pub revision: Revision,
    /// The revision of the state, before any history.
    pub floor: Revision,
}

/// Records that follow one another in the total order.
#[derive(Clone, Debug, Default)]
pub struct TailBatch {
    /// The records, in order; empty for a mere progress notice.
    pub records: Vec<Record>,
    /// Every record up to here has been delivered.
    pub progress: Revision,
}

/// A reader of the log's total order.
#[async_trait]
pub trait Tail: Send {
    /// Waits for the next records, at most `max` of them. Cancel safe.
    ///
    /// # Errors
    /// [`Error::Compacted`] when a trim passed this reader; the reader is of no use after any error.
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error>;
}

/// Who else may write to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this process, through this value: outcomes are exact and complete, so they may feed a View directly.
    Exclusive,
    /// Others too, or outcomes may be unknown: only the tail tells what happened.
    Shared,
}

/// How a log feels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether creates and updates are taken.
    pub writable: bool,
    /// Whether a fatal fault happened; nothing is answered any more.
    pub dead: bool,
    /// The revision of the last committed write.
    pub revision: Revision,
    /// The oldest revision from which a tail can start.
    pub floor: Revision,
    /// Bytes of values that only history needs (superseded values and tombstones above the floor).
    pub history_bytes: u64,
    /// Bytes the log occupies where it lives.
    pub stored_bytes: u64,
}

/// A durable, totally ordered log of compare-and-swap writes.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Commits groups, each answered on its own; a group of several writes is atomic. Later groups see the effects of
    /// earlier ones on their keys. An exclusive log makes all of them in one durable step, in order.
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>>;

    /// A reader of everything above `after`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when `after` is below the floor.
    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error>;

    /// Hands a state and the history since to `each`; applied in that order they give the present.
    ///
    /// # Errors
    /// Any failure to read; `each` may have seen some pieces by then.
    async fn load(&self, each: &mut (dyn FnMut(Piece) + Send)) -> Result<Loaded, Error>;

    /// The value a key was given at exactly this revision; `None` when it was not written there, was deleted there, or
    /// that version is trimmed away.
    ///
    /// # Errors
    /// Any failure to read.
    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error>;

    /// A revision at or above every write acknowledged before the call began, by anyone.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Dead`]: freshness cannot be proven.
    async fn barrier(&self) -> Result<Revision, Error>;

    /// Forgets versions superseded at or below `revision` and raises the floor to it; a lower one than the floor does
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Future`] for a revision above the current one.
    async fn trim(&self, revision: Revision) -> Result<(), Error>;

    /// Lets every later revision be above `to`, and everything up to the present count as forgotten: for a state that is restored beside
    /// clients who know another one. What is there stays, but may have other revisions: it must be read anew.
    ///
    /// # Errors
    /// As a write's.
    async fn raise(&self, to: Revision) -> Result<(), Error>;

    /// How the log feels; answers at once.
    fn health(&self) -> Health;

    /// Who else may write.
    fn sharing(&self) -> Sharing;

    /// Whether calls block the calling thread on the disk, so that an async caller must use a blocking thread.
    fn blocks(&self) -> bool {
        false
    }

    /// One write in a commit of its own.
    ///
    /// # Errors
    /// See [`Error`]; none leaves doubt about the write.
    async fn append(&self, append: Append) -> Result<Outcome, Error> {
        self.commit(vec![vec![append]]).await.pop().map_or(Err(Error::Dead), |r| r.map(|group| group.single()))
    }

    /// Independent writes in one durable step, each answered on its own.
    async fn append_batch(&self, appends: Vec<Append>) -> Vec<Result<Outcome, Error>> {
        let groups = appends.into_iter().map(|append| vec![append]).collect();
        self.commit(groups).await.into_iter().map(|r| r.map(|group| group.single())).collect()
    }

    /// Writes of different resources that are made whole or not at all.
    ///
    /// # Errors
    /// [`Error::SameResource`] for two keys of one resource; else as [`Log::append`].
    async fn append_atomic(&self, appends: Vec<Append>) -> Result<GroupOutcome, Error> {
        self.commit(vec![appends]).await.pop().unwrap_or(Err(Error::Dead))
    }
}
