//! Why a process cannot join the bus.

use oarlock_bus::{BadName, BadOptions};

/// Why a process cannot join the bus.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A file that the flags name cannot be read.
    #[error(transparent)]
    File(#[from] oarlock_config::Error),
    /// The flags can never lead to a connection.
    #[error(transparent)]
    Options(#[from] BadOptions),
    /// The name cannot be part of a subject.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The runtime refused an actor.
    #[error("actor on the bus")]
    Spawn(#[from] oarlock_runtime::Error),
}
