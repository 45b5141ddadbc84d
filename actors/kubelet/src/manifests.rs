//! Static pods: manifests in a directory (`--pod-manifest-path`), followed by one actor for all nodes of the process.
//!
//! The actor hands out bytes and judges nothing ([`Files`]); [`read()`] makes of them the pod that a node runs. Both as upstream's
//! `pkg/kubelet/config`: names that begin with a dot are passed over, directories are not entered, a directory that is not there holds nothing.

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

/// The follower's row.
pub(crate) static MANIFESTS: ActorKind = ActorKind { name: "kubelet.manifests", ..ActorKind::DEFAULT };

/// What a pod comes from, if not from the API (upstream `ConfigSourceAnnotationKey`).
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// The hash of a static pod's manifest, which is its uid.
pub(crate) const HASH: &str = "kubernetes.io/config.hash";
/// When its manifest was read.
pub(crate) const SEEN: &str = "kubernetes.io/config.seen";
/// In the API's picture of a static pod: the hash of what it shows.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// What lies in the directory, by path; `None` until it was looked at.
pub(crate) type Files = Option<Arc<BTreeMap<PathBuf, Bytes>>>;

/// Files are looked at again after this even if nothing was heard of them (upstream `fileCheckFrequency`): targets of links, network file systems.
pub(crate) const LOOK: Duration = Duration::from_secs(20);
/// A directory that cannot be watched, or is not there, is looked for after this (upstream `retryPeriod`).
const RETRY: Duration = Duration::from_secs(1);
/// What an editor does in one go is looked at once.
const SETTLE: Duration = Duration::from_millis(50);

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
            oarlock_runtime::clock::sleep(SETTLE).await;
        };
        if ctx.or_stop(waited).await.is_none() {
            return Ok(());
        }
    }
}

/// Waits for manifests that were not looked at yet; for ever where there are none to follow. Cancel safe.
pub(crate) async fn news(files: &mut Option<watch::Receiver<Files>>) -> Files {
    let Some(files) = files else { return std::future::pending().await };
    if files.changed().await.is_err() {
        // Their follower has ended, and so will this process.
        return std::future::pending().await;
    }
    files.borrow_and_update().clone()
}

/// Whether a file of this name is passed over.
fn hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}
