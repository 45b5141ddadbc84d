//! Static pods: one actor follows the manifests in a directory (`--pod-manifest-path`) for all nodes of the process.
//!
//! The actor publishes the files' bytes without parsing them ([`Files`]); [`read()`] turns the bytes into the pod that a node runs. The rules are those of
//! upstream's `pkg/kubelet/config`: names that begin with a dot are skipped, subdirectories are not entered, a missing directory counts as empty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oarlock_runtime::{ActorKind, Failure, LoopCtx};
use tokio::sync::watch;

mod directory;
mod read;
mod references;
#[cfg(test)]
mod tests;

use directory::Directory;
pub(crate) use read::{Manifest, read};

/// Kind of the actor that follows manifests.
pub(crate) static MANIFESTS: ActorKind = ActorKind { name: "kubelet.manifests", ..ActorKind::DEFAULT };

/// Annotation with the source of a pod, other than the API (upstream `ConfigSourceAnnotationKey`).
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// Annotation with the hash of a static pod's manifest, which is the pod's uid.
pub(crate) const HASH: &str = "kubernetes.io/config.hash";
/// Annotation with the time at which the manifest was read.
pub(crate) const SEEN: &str = "kubernetes.io/config.seen";
/// Annotation of a mirror pod with the hash of the manifest it shows.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Files in the directory by path; `None` before the first reading.
pub(crate) type Files = Option<Arc<BTreeMap<PathBuf, Bytes>>>;

/// Period of reading the files again without a notification (upstream `fileCheckFrequency`), for targets of symlinks and network file systems.
pub(crate) const FILE_CHECK_PERIOD: Duration = Duration::from_secs(20);
/// Period of checking for a directory that cannot be watched or does not exist (upstream `retryPeriod`).
const DIRECTORY_RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Delay after a change, so that an editor's several operations cause one reading.
const SETTLE_DELAY: Duration = Duration::from_millis(50);

/// Follows the manifests at `path`, a directory or a single file.
pub(crate) async fn run(ctx: LoopCtx, path: PathBuf, files: Arc<watch::Sender<Files>>) -> Result<(), Failure> {
    let mut directory = Directory::new(path);
    loop {
        if let Some(found) = ctx.protected(directory.look()).await {
            files.send_if_modified(|known| {
                let news = known.as_deref() != Some(&found);
                if news {
                    *known = Some(Arc::new(found));
                }
                news
            });
        }
        let waited = async {
            directory.changed().await;
            oarlock_runtime::clock::sleep(SETTLE_DELAY).await;
        };
        if ctx.or_stop(waited).await.is_none() {
            return Ok(());
        }
    }
}

/// Waits for manifests that this caller has not read yet; without limit where no manifests are followed. Cancel safe.
pub(crate) async fn changed(files: &mut Option<watch::Receiver<Files>>) -> Files {
    let Some(files) = files else { return std::future::pending().await };
    if files.changed().await.is_err() {
        // The actor that follows the manifests has ended, and the process is about to.
        return std::future::pending().await;
    }
    files.borrow_and_update().clone()
}

/// Whether a file of this name is skipped.
fn hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}
