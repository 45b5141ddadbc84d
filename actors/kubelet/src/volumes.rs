//! The volumes of pods: made before their containers, kept current while they run, taken down after them.
//!
//! * `plan.rs` decides what a volume is to be, `payload.rs` what files are in it; both are pure.
//! * [`Volumes::set_up`] makes it so. It may be called again at any time, and is, to refresh what projects API objects.
//! * `mounts.rs` decides what of it a container sees where; sub-paths are bound by `subpath.rs`.
//! * [`Volumes::tear_down`] needs nothing but the disk: what an earlier kubelet left behind goes the same way.
//!
//! The layout below the root directory is upstream's (`layout.rs`). Work on the file system runs on threads that may block, and one pod's
//! work is done one after another in the order in which it was asked for, even if whoever asked for it no longer waits. So nothing is made
//! after it was taken down.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use oarlock_meta::quote::quote;
use oarlock_schema::views::core_v1::Container;
use oarlock_schema::{Obj, Str};
use parking_lot::Mutex;

use crate::downward::{self, Surroundings};
use crate::environment::{self, Variables};
use crate::references::{Found, References};

mod atomic;
mod claims;
mod empty_dir;
mod host_path;
mod layout;
mod mounted;
mod mounts;
mod nested;
mod ownership;
mod payload;
mod plan;
mod set_up;
mod subpath;
mod tear_down;
#[cfg(test)]
mod tests;
mod usage;

use layout::PodDir;
pub(crate) use mounts::{ContainerMounts, HostsFile, Mount, Propagation};

/// A volume that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Where, on the node.
    pub(crate) path: PathBuf,
    /// No container may write to it.
    pub(crate) read_only: bool,
    /// Why it could not be brought up to date: the message of an event `FailedMount`. What was there before still is.
    pub(crate) stale: Option<String>,
    /// The name under which it lies below the pod's directory: that of the PersistentVolume for claims.
    pub(crate) inner_name: Str,
}

/// A pod's volumes by name.
pub(crate) type Mounted = BTreeMap<Str, Volume>;

/// Volumes that could not be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Messages of the events `FailedMount`, one for each volume.
    pub(crate) messages: Vec<String>,
    /// The names.
    pub(crate) unmounted: Vec<Str>,
}

impl Failed {
    /// The message of the event about the pod as a whole (`FailedMount`), when its start is given up for now.
    pub(crate) fn summary(&self) -> String {
        let names: Vec<&str> = self.unmounted.iter().map(Str::as_str).collect();
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process \
             volumes=[]: context deadline exceeded",
            names.join(" ")
        )
    }
}

/// See the module text. One for a node; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    root: PathBuf,
    locks: Arc<Mutex<HashMap<Str, Lock>>>,
}

/// Whoever waits gets it in the order of asking.
type Lock = Arc<tokio::sync::Mutex<()>>;

impl Volumes {
    /// The volumes of the node whose data lie in `root` (`--root-dir`).
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), locks: Arc::default() }
    }

    /// Makes the volumes that the containers of a pod mount, or brings them up to date; one that is there and cannot be brought up to
    /// date serves on ([`Volume::stale`]).
    ///
    /// # Errors
    /// What could not be made; everything else was.
    pub(crate) async fn set_up(
        &self,
        object: &Arc<Obj>,
        around: &Surroundings,
        references: &References,
    ) -> Result<Mounted, Failed> {
        self.make(object, around, references, false).await
    }

    /// As [`Volumes::set_up`], for a pod that may be about to go: what was taken down is not made again.
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
        let (plans, mut failed) = plan::all(object, around, references).await;
        let object = object.clone();
        let made = self.serially(pod.metadata().uid(), move || {
            let pod = downward::pod(&object);
            let gone = present && !dir.path().exists();
            let plans = plans.into_iter().filter(|_| !gone);
            plans.map(|(name, plan)| (name, set_up::set_up(pod, &dir, plan))).collect()
        });
        let made: Vec<(Str, Result<Volume, String>)> = match made.await {
            Ok(made) => made,
            Err(why) => {
                failed.messages.push(why);
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

    /// Reads the files of variables that the environment of a container is made of.
    pub(crate) async fn read(&self, object: &Arc<Obj>, container: Container<'_>, mounted: &Mounted, into: &mut Found) {
        for (volume, path) in environment::files(container) {
            let Some(at) = mounted.get(&volume).map(|volume| volume.path.clone()) else { continue };
            let shown = at.join(path.trim_start_matches('/'));
            let part = PathBuf::from(path.as_str());
            let text = self.serially(downward::pod(object).metadata().uid(), move || subpath::read(&at, &part)).await;
            into.insert_file((volume, path), (shown, text.and_then(|text| text)));
        }
    }

    /// Makes what a container mounts: its sub-paths, `/etc/hosts`, the file for its termination message.
    ///
    /// # Errors
    /// Why the container cannot be configured (`CreateContainerConfigError`).
    pub(crate) async fn container(
        &self,
        object: &Arc<Obj>,
        (container, attempt): (&str, u32),
        mounted: &Mounted,
        variables: &Variables,
        hosts: HostsFile,
    ) -> Result<ContainerMounts, String> {
        let uid = downward::pod(object).metadata().uid();
        let dir = self.pod_dir(uid);
        let (object, mounted, variables) = (object.clone(), mounted.clone(), variables.clone());
        let container = container.to_owned();
        let work = move || {
            let pod = downward::pod(&object);
            let found = downward::find(pod, &container).ok_or_else(|| format!("container {container} not found"))?;
            mounts::make((pod, found, attempt), &dir, &mounted, &variables, &hosts)
        };
        self.serially(uid, work).await?
    }

    /// The message with which a pod is evicted (reason `Evicted`), if one of its emptyDir volumes holds more than its limit.
    pub(crate) async fn over_limit(&self, object: &Arc<Obj>, mounted: &Mounted) -> Option<String> {
        let limits = usage::limits(downward::pod(object));
        if limits.is_empty() {
            return None;
        }
        let mounted = mounted.clone();
        // Not one after another with other work: a look at many files takes its time.
        tokio::task::spawn_blocking(move || usage::over(&limits, &mounted)).await.ok().flatten()
    }

    /// Unmounts and removes everything of a pod. Idempotent; its containers must have ended.
    ///
    /// # Errors
    /// The system's text; to be tried again.
    pub(crate) async fn tear_down(&self, uid: &str) -> Result<(), String> {
        let dir = self.pod_dir(uid);
        let removed = self.serially(uid, move || tear_down::tear_down(&dir)).await?;
        // One that somebody waits for, or holds, is his.
        self.locks.lock().retain(|known, lock| known != uid || Arc::strong_count(lock) > 1);
        removed
    }

    /// The uids of pods that left something on the disk.
    ///
    /// # Errors
    /// The system's text.
    pub(crate) async fn on_disk(&self) -> Result<Vec<Str>, String> {
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || tear_down::pods(&root)).await.map_err(|error| error.to_string())?
    }

    fn pod_dir(&self, uid: &str) -> PodDir {
        PodDir::new(&self.root, uid)
    }

    /// Runs work on a pod's files on a thread that may block, after all work that was asked for before. Who no longer waits before it has
    /// begun has not asked; once begun it comes to its end.
    async fn serially<T: Send + 'static>(
        &self,
        uid: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let lock = self.locks.lock().entry(uid.into()).or_default().clone();
        let guard = lock.lock_owned().await;
        let locked = move || {
            let _guard = guard;
            work()
        };
        tokio::task::spawn_blocking(locked).await.map_err(|error| error.to_string())
    }
}

impl Failed {
    fn add(&mut self, name: Str, step: &str, why: &str) {
        self.messages.push(Self::message(&name, step, why));
        self.unmounted.push(name);
    }

    fn message(name: &str, step: &str, why: &str) -> String {
        format!("MountVolume.{step} failed for volume {} : {why}", quote(name))
    }
}

/// What went wrong with a path, as Go tells it: `mkdir /a: permission denied`.
fn because<'a>(verb: &'a str, path: &'a std::path::Path) -> impl Fn(std::io::Error) -> String + 'a {
    move |error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        format!("{verb} {}: {text}", path.display())
    }
}
