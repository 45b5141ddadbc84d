//! The volumes of pods: set up before their containers start, updated while they run, removed after they have ended.
//!
//! * `planner.rs` decides how to make a volume, `payload.rs` which files it contains; both are pure.
//! * [`Volumes::set_up`] executes the plans. It is idempotent, and also updates volumes that project API objects.
//! * `mounts.rs` decides what a container mounts where; sub-paths are bound by `subpath.rs`.
//! * [`Volumes::tear_down`] needs only the disk's state, so it also removes what an earlier kubelet left.
//!
//! The layout below the root directory is upstream's (`layout.rs`). File system work runs on blocking threads. The work of one pod is serialized in the order
//! of requests, even if a caller has stopped waiting, so that nothing is made again after its removal.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use oarlock_meta::quote::quote;
use oarlock_schema::views::core_v1::Container;
use oarlock_schema::{Obj, Str};
use parking_lot::Mutex;

use crate::downward::{self, Surroundings};
use crate::environment::{self, Variables};
use crate::pod_error::PodError;
use crate::references::{Found, References};

mod atomic;
mod claims;
mod directory;
mod empty_dir;
mod host_path;
mod layout;
mod mounted;
mod mounts;
mod nested;
mod ownership;
mod payload;
mod plan;
mod planner;
mod set_up;
mod subpath;
mod tear_down;
#[cfg(test)]
mod tests;
mod usage;

use layout::PodDir;
pub(crate) use mounts::{ContainerMounts, HostsFile, Mount, Propagation};

/// A volume that has been set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Path of the volume on the node.
    pub(crate) path: PathBuf,
    /// Whether no container may write to the volume.
    pub(crate) read_only: bool,
    /// Why the volume could not be updated: the message of an event `FailedMount`. The previous content is still in place.
    pub(crate) stale: Option<String>,
    /// Name of the volume's directory below the pod's; for claims the PersistentVolume's name.
    pub(crate) inner_name: Str,
}

/// A pod's volumes by name.
pub(crate) type Mounted = BTreeMap<Str, Volume>;

/// Volumes that could not be set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Messages of the events `FailedMount`, one for each volume.
    pub(crate) messages: Vec<String>,
    /// Names of the volumes.
    pub(crate) unmounted: Vec<Str>,
    /// Whether one of the volumes can never be set up, while the pod stays as it is.
    pub(crate) permanent: bool,
}

impl Failed {
    /// Returns the error of the work that needs all volumes.
    pub(crate) fn error(&self) -> PodError {
        let text = self.messages.join(", ");
        if self.permanent { PodError::Invalid(text) } else { PodError::NotReady(text) }
    }

    /// Returns the message of the pod's event `FailedMount` after an attempt to start the pod has failed.
    pub(crate) fn summary(&self) -> String {
        let names: Vec<&str> = self.unmounted.iter().map(Str::as_str).collect();
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process \
             volumes=[]: context deadline exceeded",
            names.join(" ")
        )
    }
}

/// Manager of the volumes of a node's pods. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    root: PathBuf,
    locks: Arc<Mutex<HashMap<Str, Lock>>>,
}

/// Lock of one pod's volumes; waiters get it in the order of requests.
type Lock = Arc<tokio::sync::Mutex<()>>;

impl Volumes {
    /// Creates a manager of the volumes below `root` (`--root-dir`).
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), locks: Arc::default() }
    }

    /// Sets up or updates the volumes that a pod's containers mount. An existing volume that cannot be updated stays in use ([`Volume::stale`]).
    ///
    /// # Errors
    /// When some volumes could not be set up; all others were.
    pub(crate) async fn set_up(
        &self,
        object: &Arc<Obj>,
        around: &Surroundings,
        references: &References,
    ) -> Result<Mounted, Failed> {
        self.make(object, around, references, false).await
    }

    /// Updates volumes like [`Volumes::set_up`], for a pod that may be ending: removed volumes are not made again.
    ///
    /// # Errors
    /// As [`Volumes::set_up`].
    pub(crate) async fn refresh(
        &self,
        object: &Arc<Obj>,
        around: &Surroundings,
        references: &References,
    ) -> Result<Mounted, Failed> {
        self.make(object, around, references, true).await
    }

    async fn make(
        &self,
        object: &Arc<Obj>,
        around: &Surroundings,
        references: &References,
        present: bool,
    ) -> Result<Mounted, Failed> {
        let pod = downward::pod(object);
        let dir = self.pod_dir(pod.metadata().uid());
        let (plans, mut failed) = planner::all(object, around, references).await;
        let object = object.clone();
        let made = self.serially(pod.metadata().uid(), move || {
            let pod = downward::pod(&object);
            let gone = present && !dir.path().exists();
            let plans = plans.into_iter().filter(|_| !gone);
            plans.map(|(name, plan)| (name, set_up::set_up(pod, &dir, plan))).collect()
        });
        let made: Vec<(Str, Result<Volume, PodError>)> = match made.await {
            Ok(made) => made,
            Err(why) => {
                failed.permanent |= why.is_permanent();
                failed.messages.push(why.to_string());
                return Err(failed);
            }
        };
        let mut mounted = Mounted::new();
        for (name, result) in made {
            match result {
                Ok(volume) => {
                    let stale = volume.stale.map(|why| Failed::message(&name, "SetUp", &why));
                    mounted.insert(name, Volume { stale, ..volume });
                }
                Err(why) => failed.add(name, "SetUp", &why),
            }
        }
        if failed.messages.is_empty() { Ok(mounted) } else { Err(failed) }
    }

    /// Reads the files of variables that a container's environment refers to.
    pub(crate) async fn read(&self, object: &Arc<Obj>, container: Container<'_>, mounted: &Mounted, into: &mut Found) {
        for (volume, path) in environment::files(container) {
            let Some(at) = mounted.get(&volume).map(|volume| volume.path.clone()) else { continue };
            let shown = at.join(path.trim_start_matches('/'));
            let part = PathBuf::from(path.as_str());
            let text = self.serially(downward::pod(object).metadata().uid(), move || subpath::read(&at, &part)).await;
            into.insert_file((volume, path), (shown, text.and_then(|text| text)));
        }
    }

    /// Makes a container's own mounts: its sub-paths, `/etc/hosts`, the file for its termination message.
    ///
    /// # Errors
    /// When the container cannot be configured (`CreateContainerConfigError`).
    pub(crate) async fn container(
        &self,
        object: &Arc<Obj>,
        (container, attempt): (&str, u32),
        mounted: &Mounted,
        variables: &Variables,
        hosts: HostsFile,
    ) -> Result<ContainerMounts, PodError> {
        let uid = downward::pod(object).metadata().uid();
        let dir = self.pod_dir(uid);
        let (object, mounted, variables) = (object.clone(), mounted.clone(), variables.clone());
        let container = container.to_owned();
        let work = move || {
            let pod = downward::pod(&object);
            let found = downward::find(pod, &container)
                .ok_or_else(|| PodError::Invalid(format!("container {container} not found")))?;
            mounts::make((pod, found, attempt), &dir, &mounted, &variables, &hosts)
        };
        self.serially(uid, work).await?
    }

    /// Returns the message of a pod's eviction (reason `Evicted`), if one of its emptyDir volumes exceeds its limit.
    pub(crate) async fn over_limit(&self, object: &Arc<Obj>, mounted: &Mounted) -> Option<String> {
        let limits = usage::limits(downward::pod(object));
        if limits.is_empty() {
            return None;
        }
        let mounted = mounted.clone();
        // Not serialized with other work of the pod, since measuring many files takes long.
        tokio::task::spawn_blocking(move || usage::eviction_message(&limits, &mounted)).await.ok().flatten()
    }

    /// Unmounts and removes all volumes and directories of a pod. Idempotent; the pod's containers must have ended.
    ///
    /// # Errors
    /// When the operating system refuses; the caller must try again.
    pub(crate) async fn tear_down(&self, uid: &str) -> Result<(), PodError> {
        let dir = self.pod_dir(uid);
        let removed = self.serially(uid, move || tear_down::tear_down(&dir)).await?;
        // A lock that a caller holds or waits for must stay.
        self.locks.lock().retain(|known, lock| known != uid || Arc::strong_count(lock) > 1);
        removed
    }

    /// Returns the uids of the pods with leftovers on the disk.
    ///
    /// # Errors
    /// When the disk cannot be read; the operating system's text.
    pub(crate) async fn on_disk(&self) -> Result<Vec<Str>, PodError> {
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || tear_down::pods(&root)).await.map_err(unfinished)?
    }

    fn pod_dir(&self, uid: &str) -> PodDir {
        PodDir::new(&self.root, uid)
    }

    /// Runs work on a pod's files on a blocking thread, after all earlier work of the pod. Work whose caller has stopped waiting is skipped if it has not
    /// begun; once begun it runs to its end.
    async fn serially<T: Send + 'static>(
        &self,
        uid: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PodError> {
        let lock = self.locks.lock().entry(uid.into()).or_default().clone();
        let guard = lock.lock_owned().await;
        let locked = move || {
            let _guard = guard;
            work()
        };
        tokio::task::spawn_blocking(locked).await.map_err(unfinished)
    }
}

impl Failed {
    fn add(&mut self, name: Str, step: &str, why: &PodError) {
        self.permanent |= why.is_permanent();
        self.messages.push(Self::message(&name, step, &why.to_string()));
        self.unmounted.push(name);
    }

    fn message(name: &str, step: &str, why: &str) -> String {
        format!("MountVolume.{step} failed for volume {} : {why}", quote(name))
    }
}

/// Returns the error of work that ended without a result: it panicked, or the process is being shut down.
fn unfinished(error: tokio::task::JoinError) -> PodError {
    PodError::NotReady(error.to_string())
}
