//! Calls to a log, on a blocking thread if the log may block.

use std::future::Future;
use std::sync::Arc;

use oarlock_storage::{Error, Log};
use tokio::runtime::Handle;

/// Runs `call` on the log: on this thread when the log never blocks, else on tokio's blocking pool. The blocking pool finishes the call when the
/// caller is dropped, so no commit is left half done.
///
/// # Errors
/// [`Error::Dead`] when the call panicked or the runtime is shutting down.
pub(crate) async fn offload<T, F, R>(log: &Arc<dyn Log>, call: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(Arc<dyn Log>) -> R + Send + 'static,
    R: Future<Output = T> + Send,
{
    let log = Arc::clone(log);
    if !log.blocks() {
        return Ok(call(log).await);
    }
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(call(log))).await.map_err(|_| Error::Dead)
}
