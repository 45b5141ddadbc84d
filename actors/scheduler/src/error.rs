//! Why a scheduler could not be started.

/// Why a scheduler could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration has no scheduler name.
    #[error("no scheduler name")]
    Nameless,
    /// An actor of the scheduler could not be spawned.
    #[error("scheduler actor")]
    Spawn(#[from] oarlock_runtime::Error),
}
