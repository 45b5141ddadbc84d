//! The names and folders of one run, which no other run shares.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::tool::{root, say};

/// The prefix of the names of all namespaces and cgroups of runs.
const PREFIX: &str = "oarlock-conformance";
/// The folder of a run is called this and its number.
const RUN: &str = "run-";
/// The nodes, whose numbers are parts of their addresses.
pub(crate) const NODES: [u8; 2] = [1, 2];

/// The folder of everything that has to do with conformance.
pub(crate) fn home() -> PathBuf {
    root().join("target/conformance")
}

/// The names and folders of one run, identified by the number of its process.
pub(crate) struct Place {
    folder: PathBuf,
    number: u32,
}

impl Place {
    /// Makes the folders of a new run.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let number = std::process::id();
        let folder = home().join(format!("{RUN}{number}"));
        std::fs::create_dir_all(home())?;
        // An ended run may have had the number; what it had to leave is cleaned up already.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let place = Self { folder: folder.canonicalize()?, number };
        std::fs::create_dir(place.state())?;
        std::fs::create_dir(place.logs())?;
        std::fs::write(place.owner(), started(number).unwrap_or_default())?;
        say(&format!("state and logs of this run: {}", place.folder.display()));
        Ok(place)
    }

    /// The run whose folder this is.
    pub(crate) fn at(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(RUN).and_then(|number| number.parse().ok());
        let number = number.with_context(|| format!("{} is not the folder of a run", folder.display()))?;
        Ok(Self { folder: folder.canonicalize()?, number })
    }

    /// Returns all runs that have a folder.
    pub(crate) fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(home()).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::at(&entry.path()).ok()).collect()
    }

    /// Whether the process that made this run is still there.
    pub(crate) fn is_owned(&self) -> bool {
        let owner = std::fs::read_to_string(self.owner()).unwrap_or_default();
        !owner.is_empty() && started(self.number).is_some_and(|started| started == owner)
    }

    fn owner(&self) -> PathBuf {
        self.folder.join("owner")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of data that is removed with the run: keys, stores, file systems of containers.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Returns the folder of data that stays: logs and reports.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// The name of its cgroup in each hierarchy.
    pub(crate) fn cgroup(&self) -> String {
        format!("{PREFIX}-{}", self.number)
    }

    /// The network namespace of the host with the control plane.
    pub(crate) fn control(&self) -> String {
        format!("{}-control", self.cgroup())
    }

    /// The network namespace of a node.
    pub(crate) fn host(&self, node: u8) -> String {
        format!("{}-{}", self.cgroup(), name(node))
    }

    /// Returns the names of the run's network namespaces, whether they exist or not.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let hosts = NODES.iter().map(|node| self.host(*node));
        hosts.chain([self.control()]).collect()
    }

    /// A program in the control plane's network.
    pub(crate) fn beside(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(net(&self.control())).arg(program);
        command
    }
}

/// Returns the name of a node.
pub(crate) fn name(node: u8) -> String {
    format!("n{node}")
}

/// The flag by which nsenter enters a network namespace.
pub(crate) fn net(namespace: &str) -> String {
    format!("--net=/run/netns/{namespace}")
}

/// Returns the start time of a process, in the kernel's own unit (proc_pid_stat(5), field 22); a later process with the same number has another time.
fn started(process: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    since_boot(&text)
}

/// The name of the program, in parentheses, may hold anything.
fn since_boot(stat: &str) -> Option<String> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::since_boot;

    #[test]
    fn a_programs_name_does_not_shift_the_fields() {
        let stat = "17 (a) b 9 9) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(since_boot(stat).as_deref(), Some("4711"));
        assert_eq!(since_boot("17"), None);
    }
}
