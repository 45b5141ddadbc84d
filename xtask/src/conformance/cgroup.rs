//! The cgroups of a run. All processes of a run, those of containers too, are below them in one hierarchy, which thus lists what has to be ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::place::{NODES, Place, name};
use super::wait;
use crate::tool::output;

const MOUNTED: &str = "/sys/fs/cgroup";
/// The hierarchy that shows which processes belong to a run.
const RECORD: &str = "pids";
/// Below the run's: those that are no container's.
const DAEMONS: &str = "daemons";
/// The controllers that a node needs, each in a hierarchy of its own.
const CONTROLLERS: [&str; 7] = ["cpu", "cpuset", "memory", "devices", "freezer", "blkio", RECORD];
/// Limit until killed processes are collected and cgroups can be removed.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the controllers that have no hierarchy of version 1.
pub(crate) fn lacking() -> Option<String> {
    let missing = CONTROLLERS.iter().filter(|name| !Path::new(MOUNTED).join(name).join("cgroup.procs").exists());
    let missing: Vec<&str> = missing.copied().collect();
    (!missing.is_empty()).then(|| {
        format!("cgroup version 1 with {} below {MOUNTED}: nodes in version 2 are not laid yet", missing.join(", "))
    })
}

/// Makes a node's cgroup in every hierarchy, and the one of the daemons.
pub(crate) fn make(place: &Place) -> anyhow::Result<()> {
    for hierarchy in hierarchies() {
        let run = hierarchy.join(place.cgroup());
        let nodes = NODES.iter().map(|node| run.join(name(*node)));
        for folder in [run.clone()].into_iter().chain(nodes) {
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            // A new cpuset is empty, and nothing runs in it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let above = folder.parent().unwrap_or(&hierarchy).join(file);
                if above.exists() {
                    fs::write(folder.join(file), fs::read(&above)?)?;
                }
            }
        }
    }
    fs::create_dir(record(place).join(DAEMONS))?;
    Ok(())
}

/// The file into which a process writes its number to be one of the run.
pub(crate) fn daemons(place: &Place) -> PathBuf {
    record(place).join(DAEMONS).join("cgroup.procs")
}

fn record(place: &Place) -> PathBuf {
    Path::new(MOUNTED).join(RECORD).join(place.cgroup())
}

/// The hierarchies of version 1, which have tasks.
fn hierarchies() -> Vec<PathBuf> {
    below(Path::new(MOUNTED)).into_iter().filter(|hierarchy| hierarchy.join("tasks").exists()).collect()
}

/// Ends every process of a run.
///
/// # Errors
/// When one is still there after a while.
pub(crate) fn kill(place: &Place) -> anyhow::Result<()> {
    wait::until("the processes of the run have ended", END_TIMEOUT, || {
        let mut processes = Vec::new();
        collect(&record(place), &mut processes);
        if processes.is_empty() {
            return Ok(Ok(()));
        }
        // A process that has ended meanwhile is no failure.
        let _some_may_have_ended = output(Command::new("kill").arg("-KILL").args(&processes));
        Ok(Err(format!("there are {}", processes.join(" "))))
    })
}

/// The processes of a cgroup and of those below it; none if the cgroup does not exist.
fn collect(folder: &Path, processes: &mut Vec<String>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    processes.extend(text.lines().map(str::to_owned));
    for below in below(folder) {
        collect(&below, processes);
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // Symbolic links are other names of the same cgroups.
    entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// Removes the cgroups of a run, whose processes have ended.
///
/// # Errors
/// When one cannot be removed for long.
pub(crate) fn remove(place: &Place) -> anyhow::Result<()> {
    // runc makes them where version 2 is mounted, too.
    for hierarchy in below(Path::new(MOUNTED)) {
        let run = hierarchy.join(place.cgroup());
        wait::until("cgroups are removed", END_TIMEOUT, || Ok(remove_all(&run)))?;
    }
    Ok(())
}

fn remove_all(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        return Ok(());
    }
    for below in below(folder) {
        remove_all(&below)?;
    }
    fs::remove_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
