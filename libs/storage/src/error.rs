//! What a log can answer besides an outcome.

use std::io;
use std::sync::Arc;

use oarlock_meta::Revision;

/// Why a log did not do what it was asked.
///
/// None of these leaves doubt about a write: it was not made. Doubt is [`Outcome::Unknown`](crate::Outcome::Unknown).
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No room is left: creates and updates are refused until space is back; deletes and trims go on.
    #[error("the store is read-only: it is full")]
    ReadOnly,
    /// An atomic group wrote two objects of one resource: a watch resumed between its events would lose one.
    #[error("two keys of the resource {resource} in one atomic group")]
    SameResource {
        /// The prefix both keys share.
        resource: String,
    },
    /// An atomic group with nothing in it.
    #[error("an atomic group must write something")]
    EmptyGroup,
    /// A value longer than the log takes.
    #[error("a value of {len} bytes is above the limit of {limit}")]
    TooLarge {
        /// Length of the value, in bytes.
        len: usize,
        /// The longest value allowed, in bytes.
        limit: usize,
    },
    /// The history asked for was trimmed away; start again from a load.
    #[error("history up to revision {floor} is compacted")]
    Compacted {
        /// The oldest revision from which a tail can still start.
        floor: Revision,
    },
    /// The log cannot be opened as it is asked for; trying again does not help.
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
    /// The log met a fatal fault earlier (see [`Fatal`]) and answers nothing any more.
    #[error("the store stopped after a fatal fault")]
    Dead,
    /// The backing service cannot be reached right now; nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is on the disk is not what this log wrote.
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

/// A fault after which no promise about durability can be kept: the process must end, and nothing may be answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fatal {
    /// `fdatasync` failed. What it covered may be lost although the kernel reports its pages clean, so a second try
    /// would report success over lost data (fsyncgate); it is never retried.
    #[error("fsync of the store failed: {0}")]
    Sync(Arc<io::Error>),
    /// Reading or writing the store file failed for another reason than a full disk.
    #[error("i/o of the store failed: {0}")]
    Io(Arc<io::Error>),
    /// The engine contradicted itself.
    #[error("the store engine failed: {0}")]
    Engine(String),
}

/// Called once, on the thread that met the fault, before anybody is answered. In production it logs and ends the
/// process; in tests it records and returns, and the log answers [`Error::Dead`] from then on.
pub type FatalHook = Arc<dyn Fn(&Fatal) + Send + Sync>;
