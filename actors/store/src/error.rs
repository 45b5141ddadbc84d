//! Why the store did not answer as hoped; the layer above turns these into Status objects.

use oarlock_meta::Revision;
use oarlock_storage::{Cause, Key};

/// The watch window moved past a watcher: 410 Expired, list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: the watch window begins at {floor}")]
pub struct Gone {
    /// The oldest revision from which a watch can start now.
    pub floor: Revision,
}

/// A read that the View cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision is below the window of exact reads: 410 Expired.
    #[error("revision is too old: the window begins at {floor}")]
    Expired {
        /// The oldest revision that can be read exactly.
        floor: Revision,
    },
    /// The revision is not applied yet: 504, "Too large resource version".
    #[error("revision {asked} is not applied yet, the current one is {current}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// What is applied.
        current: Revision,
    },
    /// The log could not prove how fresh the View is.
    #[error("freshness cannot be proven: {0}")]
    Log(String),
}

/// A committed change that does not follow from the View's state: something was missed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change {revision} of {key} replaces {expected:?}, the view has {current:?}")]
pub struct Hole {
    /// The key of the change.
    pub key: Key,
    /// The revision of the change.
    pub revision: Revision,
    /// What the change says it replaced.
    pub expected: Option<Revision>,
    /// What the View has.
    pub current: Option<Revision>,
}

/// A write that was not, or maybe not, made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The key, or the fence, is not in the state the write expected. The View has already applied `current`.
    #[error("conflict: the current revision is {current:?}")]
    Conflict {
        /// Which write of an atomic group; 0 for a single one.
        index: usize,
        /// The revision now; `None`: the object does not exist.
        current: Option<Revision>,
        /// Which compare failed.
        cause: Cause,
    },
    /// Written or not; nobody could tell before the deadline: 504 "outcome unknown", never "not written".
    #[error("the outcome of the write is unknown")]
    Unknown,
    /// The queue stayed full until the deadline; nothing was written.
    #[error("too many writes are waiting")]
    Overloaded,
    /// The store is stopping or has stopped; nothing was written.
    #[error("the store has stopped")]
    Stopped,
    /// The log refused; nothing was written.
    #[error(transparent)]
    Log(#[from] oarlock_storage::Error),
}
