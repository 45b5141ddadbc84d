//! The store's errors; the API layer turns them into Status objects.

use oarlock_meta::Revision;
use oarlock_storage::{Cause, Key};

/// The watch window has moved past a watcher: 410 Expired, the client must list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: the watch window begins at {floor}")]
pub struct Gone {
    /// The oldest revision from which a watch can start now.
    pub floor: Revision,
}

/// A read that the View cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The revision is below the oldest one that can be read exactly: 410 Expired.
    #[error("revision is too old: the window begins at {floor}")]
    Expired {
        /// The oldest revision that can be read exactly.
        floor: Revision,
    },
    /// The revision is not applied yet: 504, "Too large resource version".
    #[error("revision {asked} is not applied yet, the current one is {current}")]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The revision the View has applied.
        current: Revision,
    },
    /// The log could not prove that the View is fresh.
    #[error("freshness cannot be proven: {0}")]
    Log(String),
}

/// A committed change that does not follow from the View's state: an earlier change is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change {revision} of {key} replaces {expected:?}, the view has {current:?}")]
pub struct MissingChange {
    /// The key of the change.
    pub key: Key,
    /// The revision of the change.
    pub revision: Revision,
    /// The revision that the change replaced.
    pub expected: Option<Revision>,
    /// The revision that the View has.
    pub current: Option<Revision>,
}

/// A write that was not made, or whose outcome is unknown.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The key, or the fence, is not in the expected state. The View has already applied `current`.
    #[error("conflict: the current revision is {current:?}")]
    Conflict {
        /// The position of the write in an atomic group; 0 for a single write.
        index: usize,
        /// The current revision; `None` when the object does not exist.
        current: Option<Revision>,
        /// The comparison that failed.
        cause: Cause,
    },
    /// The outcome was still unknown at the deadline: 504 "outcome unknown", never "not written".
    #[error("the outcome of the write is unknown")]
    Unknown,
    /// The queue stayed full until the deadline; nothing was written.
    #[error("too many writes are waiting")]
    Overloaded,
    /// The store is stopping or has stopped; nothing was written.
    #[error("the store has stopped")]
    Stopped,
    /// The log refused the write; nothing was written.
    #[error(transparent)]
    Log(#[from] oarlock_storage::Error),
}
