//! Removes what a run has left: its processes, mounts, namespaces, cgroups and state, and nothing else.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

use super::cgroup;
use super::place::Place;
use crate::tool::{output, say};

/// A process that cleans up when the run's own has ended, however that was: by itself, by a signal, by kill -9.
pub(crate) struct Cleaner {
    child: Child,
    log: PathBuf,
}

impl Cleaner {
    /// Starts the cleaner, in a process group of its own, which the terminal does not interrupt.
    pub(crate) fn start(place: &Place) -> anyhow::Result<Self> {
        let log = place.logs().join("clean-up.log");
        let file = std::fs::File::create(&log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["conformance", "--clean-up-after"]).arg(place.folder()).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child, log })
    }

    /// Orders the cleaner to clean up now.
    ///
    /// # Errors
    /// When something is left.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        say("taking the cluster away");
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        let text = std::fs::read_to_string(&self.log)?;
        ensure!(status.success(), "something of the run is left: {}", text.trim());
        Ok(())
    }
}

/// Cleans up when standard input ends, at the latest with the process that holds the other end.
pub(crate) fn after(folder: &Path) -> anyhow::Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    clean(&Place::at(folder)?)
}

/// Cleans up after earlier runs whose cleaner was ended too, and deletes the logs of all runs but the last.
pub(crate) fn leftovers() -> anyhow::Result<()> {
    let mut ended: Vec<Place> = Place::all().into_iter().filter(|place| !place.is_owned()).collect();
    for place in ended.iter().filter(|place| place.state().exists()) {
        say(&format!("{} was not cleaned up", place.folder().display()));
        clean(place)?;
    }
    ended.sort_by_key(|place| std::fs::metadata(place.logs()).and_then(|logs| logs.modified()).ok());
    ended.pop();
    for place in ended {
        std::fs::remove_dir_all(place.folder()).with_context(|| place.folder().display().to_string())?;
    }
    Ok(())
}

fn clean(place: &Place) -> anyhow::Result<()> {
    cgroup::kill(place)?;
    unmount_all(&place.state())?;
    for namespace in place.namespaces() {
        if Path::new("/run/netns").join(&namespace).exists() {
            output(Command::new("ip").args(["netns", "delete", &namespace]))?;
        }
    }
    cgroup::remove(place)?;
    if place.state().exists() {
        std::fs::remove_dir_all(place.state()).with_context(|| place.state().display().to_string())?;
    }
    Ok(())
}

/// Takes away every mount below a folder. Those below others first, and each time anew: one that is shared takes its copies with it.
fn unmount_all(folder: &Path) -> anyhow::Result<()> {
    let mounts =
        || -> anyhow::Result<Vec<PathBuf>> { Ok(mounts_below(&std::fs::read_to_string("/proc/self/mounts")?, folder)) };
    let mut left = mounts()?;
    while let Some(mount) = left.pop() {
        output(Command::new("umount").arg("--lazy").arg(&mount))?;
        left = mounts()?;
    }
    Ok(())
}

/// The mount points below a folder, in the order of their mounts.
fn mounts_below(mounts: &str, folder: &Path) -> Vec<PathBuf> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(unescaped);
    points.filter(|point| point.starts_with(folder)).collect()
}

/// proc_pid_mounts(5) writes a space as `\040`.
fn unescaped(point: &str) -> PathBuf {
    point.replace("\\040", " ").into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::mounts_below;

    #[test]
    fn only_mounts_of_the_run_are_taken_away() {
        let mounts = "tmpfs /t/run-1/state/a tmpfs rw 0 0\ntmpfs /t/run-1/state/a/b\\040c tmpfs rw 0 0\n\
                      tmpfs /t/run-12/state/a tmpfs rw 0 0\ntmpfs /t tmpfs rw 0 0\n";
        let found = mounts_below(mounts, Path::new("/t/run-1/state"));
        assert_eq!(found, [Path::new("/t/run-1/state/a"), Path::new("/t/run-1/state/a/b c")]);
    }
}
