//! Makes and removes the cgroups of pods. A pod's cgroup is made before the sandbox, so that the pod's limits hold for the sandbox too, and removed after it,
//! which no runtime does. Names are those of upstream's `cgroupfs` driver: `<root>/kubepods/[burstable/|besteffort/]pod<uid>`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use oarlock_pods::{QosClass, qos};
use oarlock_schema::views::core_v1::Pod;

use crate::configs::PodLimits;
use crate::resources::PERIOD;

/// Mount point of the cgroup file systems.
const MOUNT: &str = "/sys/fs/cgroup";

/// Cgroups of pods below one root cgroup.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups {
    mount: PathBuf,
    /// Path of the root cgroup with a leading `/`, as runtimes expect.
    root: String,
    /// Whether the host has one hierarchy with all controllers (cgroup version 2).
    unified: bool,
}

impl Cgroups {
    /// Creates a manager of pod cgroups below `root` (`--cgroup-root`); an empty root is the system's.
    pub(crate) fn new(root: &str) -> Self {
        Self::at(Path::new(MOUNT), root)
    }

    fn at(mount: &Path, root: &str) -> Self {
        let root = root.trim_matches('/');
        let root = if root.is_empty() { String::new() } else { format!("/{root}") };
        Self { mount: mount.to_owned(), root, unified: mount.join("cgroup.controllers").is_file() }
    }

    /// Returns the `cgroup_parent` of a pod's sandbox.
    pub(crate) fn parent(&self, pod: Pod<'_>) -> String {
        self.named(class(qos::of(pod)), pod.metadata().uid())
    }

    fn named(&self, class: &str, uid: &str) -> String {
        format!("{}/kubepods{class}/pod{uid}", self.root)
    }

    /// Makes a pod's cgroup with its limits. Idempotent.
    pub(crate) fn make(&self, parent: &str, limits: &PodLimits) -> io::Result<()> {
        if self.unified {
            return self.make_unified(parent, limits);
        }
        let write = |controller: &str, file: &str, value: i64| {
            let dir = self.mount.join(controller).join(parent.trim_start_matches('/'));
            match std::fs::create_dir_all(&dir) {
                // A missing or read-only hierarchy cannot limit anything.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ReadOnlyFilesystem) => {
                    return Ok(());
                }
                other => other?,
            }
            put(&dir.join(file), &value.to_string())
        };
        write("cpu", "cpu.shares", limits.cpu_shares)?;
        if let Some(quota) = limits.cpu_quota {
            write("cpu", "cpu.cfs_period_us", PERIOD)?;
            write("cpu", "cpu.cfs_quota_us", quota)?;
        }
        if let Some(bytes) = limits.memory {
            write("memory", "memory.limit_in_bytes", bytes)?;
        }
        Ok(())
    }

    fn make_unified(&self, parent: &str, limits: &PodLimits) -> io::Result<()> {
        let mut dir = self.mount.clone();
        for part in parent.split('/').filter(|part| !part.is_empty()) {
            // Only enabled controllers can set limits in child cgroups. The kernel rejects missing controllers one by one.
            for controller in ["+cpu", "+memory", "+pids", "+cpuset", "+io"] {
                if let Err(error) = put(&dir.join("cgroup.subtree_control"), controller) {
                    tracing::debug!(%error, controller, dir = %dir.display(), "controller not handed down");
                }
            }
            dir.push(part);
            std::fs::create_dir_all(&dir)?;
        }
        put(&dir.join("cpu.weight"), &weight(limits.cpu_shares).to_string())?;
        if let Some(quota) = limits.cpu_quota {
            put(&dir.join("cpu.max"), &format!("{quota} {}", PERIOD))?;
        }
        if let Some(bytes) = limits.memory {
            put(&dir.join("memory.max"), &bytes.to_string())?;
        }
        Ok(())
    }

    /// Removes a pod's cgroup from every hierarchy. Idempotent.
    ///
    /// # Errors
    /// When a cgroup still contains processes.
    pub(crate) fn remove(&self, uid: &str) -> io::Result<()> {
        for class in CLASSES {
            let name = self.named(class, uid);
            for hierarchy in self.hierarchies()? {
                remove_tree(&hierarchy.join(name.trim_start_matches('/')))?;
            }
        }
        Ok(())
    }

    /// Returns the uids of the pods that have a cgroup.
    pub(crate) fn pods(&self) -> io::Result<Vec<String>> {
        let mut uids = Vec::new();
        for hierarchy in self.hierarchies()? {
            for class in CLASSES {
                let dir = hierarchy.join(format!("{}/kubepods{class}", self.root).trim_start_matches('/'));
                uids.extend(names(&dir)?.into_iter().filter_map(|name| name.strip_prefix("pod").map(str::to_owned)));
            }
        }
        uids.sort();
        uids.dedup();
        Ok(uids)
    }

    fn hierarchies(&self) -> io::Result<Vec<PathBuf>> {
        if self.unified {
            return Ok(vec![self.mount.clone()]);
        }
        Ok(names(&self.mount)?.into_iter().map(|name| self.mount.join(name)).collect())
    }
}

const CLASSES: [&str; 3] = ["", "/burstable", "/besteffort"];

fn class(qos: QosClass) -> &'static str {
    match qos {
        QosClass::Burstable => "/burstable",
        QosClass::BestEffort => "/besteffort",
        QosClass::Guaranteed => "",
    }
}

/// Converts version 1's CPU shares to version 2's weight (the same formula as runc and systemd).
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

fn put(file: &Path, value: &str) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    std::fs::write(file, value).map_err(named)
}

/// Returns the names of the directories in `dir`, without symlinks; an empty list when `dir` does not exist.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Removes a cgroup and its children, the innermost first. The kernel removes a cgroup's files with its directory.
fn remove_tree(dir: &Path) -> io::Result<()> {
    for name in names(dir)? {
        remove_tree(&dir.join(name))?;
    }
    match std::fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", dir.display()))),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_bounds_what_is_asked_for_and_leaves_nothing() {
        let mount = tempfile::tempdir().unwrap();
        for controller in ["cpu", "memory", "pids"] {
            std::fs::create_dir(mount.path().join(controller)).unwrap();
        }
        let cgroups = Cgroups::at(mount.path(), "/n1");
        let parent = cgroups.named(class(QosClass::Burstable), "u1");
        assert_eq!(parent, "/n1/kubepods/burstable/podu1");
        let limits = PodLimits { cpu_shares: 102, cpu_quota: Some(5000), memory: Some(1 << 20) };
        cgroups.make(&parent, &limits).unwrap();
        let read = |file: &str| std::fs::read_to_string(mount.path().join(file)).unwrap();
        assert_eq!(read("cpu/n1/kubepods/burstable/podu1/cpu.shares"), "102");
        assert_eq!(read("memory/n1/kubepods/burstable/podu1/memory.limit_in_bytes"), "1048576");
        assert_eq!(cgroups.pods().unwrap(), ["u1"]);
        for file in ["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"] {
            std::fs::remove_file(mount.path().join("cpu/n1/kubepods/burstable/podu1").join(file)).unwrap();
        }
        std::fs::remove_file(mount.path().join("memory/n1/kubepods/burstable/podu1/memory.limit_in_bytes")).unwrap();
        std::fs::create_dir_all(mount.path().join("pids/n1/kubepods/burstable/podu1/inner")).unwrap();
        cgroups.remove("u1").unwrap();
        cgroups.remove("u1").unwrap();
        assert!(cgroups.pods().unwrap().is_empty());
    }

    #[test]
    fn shares_become_weights() {
        assert_eq!([2, 1024, 262_144].map(weight), [1, 39, 10_000]);
    }
}
