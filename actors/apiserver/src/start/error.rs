//! Errors of starting a server.

/// The reason why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store could not be loaded.
    #[error(transparent)]
    Store(#[from] oarlock_store::StartError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] oarlock_store::ReadError),
    /// Keys or certificates are unusable.
    #[error(transparent)]
    Pki(#[from] oarlock_pki::Error),
    /// An actor could not be spawned.
    #[error(transparent)]
    Actor(#[from] oarlock_runtime::Error),
    /// The socket is unusable.
    #[error("listener: {0}")]
    Socket(#[from] std::io::Error),
}
