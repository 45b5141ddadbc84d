//! Errors of a log.

use std::io;
use std::sync::Arc;

use oarlock_meta::Revision;

/// Why a log refused or failed a request.
///
/// Every variant means that nothing was written. An uncertain write is reported as [`Outcome::Unknown`](crate::Outcome::Unknown).
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store is full: creates and updates are refused until space is free; deletes and trims still work.
    #[error("the store is read-only: it is full")]
    ReadOnly,
    /// An atomic group writes two objects of one resource. A watch that resumes between the two events would miss one.
    #[error("two keys of the resource {resource} in one atomic group")]
    SameResource {
        /// The resource prefix that both keys share.
        resource: String,
    },
    /// An atomic group without writes.
    #[error("an atomic group must write something")]
    EmptyGroup,
    /// A value longer than [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES).
    #[error("a value of {len} bytes is above the limit of {limit}")]
    TooLarge {
        /// Length of the value, in bytes.
        len: usize,
        /// The longest value allowed, in bytes.
        limit: usize,
    },
    /// The requested history was trimmed; the reader must start again with a load.
    #[error("history up to revision {floor} is compacted")]
    Compacted {
        /// The oldest revision from which a tail can still start.
        floor: Revision,
    },
    /// The options do not allow the log to be opened; a retry does not help.
    #[error("{0}")]
    Config(String),
    /// A trim or a read names a revision that does not exist yet.
    #[error("revision {asked} is above the current revision {current}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The log's current revision.
        current: Revision,
    },
    /// The log met a fatal fault earlier (see [`Fatal`]) and no longer answers.
    #[error("the store stopped after a fatal fault")]
    Dead,
    /// The backing service cannot be reached at the moment; nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The stored bytes are not what the log wrote.
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
    /// The log could not be opened or read.
    #[error("store i/o: {0}")]
    Io(Arc<io::Error>),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// A fault after which the log cannot keep its durability promise: the process must end without answering any caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fatal {
    /// `fdatasync` failed. Data covered by the call may be lost although the kernel reports its pages clean, so a second call would report success over lost data (fsyncgate).
    /// The call is never retried.
    #[error("fsync of the store failed: {0}")]
    Sync(Arc<io::Error>),
    /// Reading or writing the store file failed for another reason than a full disk.
    #[error("i/o of the store failed: {0}")]
    Io(Arc<io::Error>),
    /// The engine reported an inconsistent state.
    #[error("the store engine failed: {0}")]
    Engine(String),
}

/// Callback for a fatal fault: called once, on the thread that met the fault, before any caller gets an answer. In production the hook logs and ends the process; in tests it
/// records the fault and returns, and the log answers [`Error::Dead`] from then on.
pub type FatalHook = Arc<dyn Fn(&Fatal) + Send + Sync>;
