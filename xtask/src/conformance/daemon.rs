//! Processes of a run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::cgroup;
use super::place::{Place, net};

/// A program in a network namespace of a run and in its cgroup, with which it ends. Its output goes to a log.
pub(crate) struct Daemon<'a> {
    place: &'a Place,
    name: String,
    namespace: String,
    /// Folders that the program shall see in the place of others.
    instead: Vec<(PathBuf, &'static str)>,
}

impl<'a> Daemon<'a> {
    /// A program that is called so in logs.
    pub(crate) fn new(place: &'a Place, name: &str, namespace: &str) -> Self {
        Self { place, name: name.to_owned(), namespace: namespace.to_owned(), instead: Vec::new() }
    }

    /// The program sees this folder or file where the machine's own is.
    pub(crate) fn instead(mut self, folder: PathBuf, of: &'static str) -> Self {
        self.instead.push((folder, of));
        self
    }

    /// Starts it. Its standard input ends with the returned value; the program does not, but with its cgroup.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start<A: AsRef<OsStr>>(
        self,
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Child> {
        let log = self.place.logs().join(format!("{}.log", self.name));
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new("sh");
        command.args(["-ec", "echo $$ > \"$CGROUP\"; exec \"$@\"", "sh", "nsenter", &net(&self.namespace)]);
        if !self.instead.is_empty() {
            // The mounts below the kubelet's folder are still shared with the machine, since that is a mount of its own.
            command.args(["unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", &self.script(), "sh"]);
        }
        command.arg(program).args(args).env("CGROUP", cgroup::daemons(self.place));
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        command.spawn().with_context(|| format!("{}: not started", self.name))
    }

    /// Puts the folders into their places, seen by the program only.
    fn script(&self) -> String {
        let mut script = String::new();
        for (_, of) in &self.instead {
            script += &format!("mount --make-private \"$(findmnt -no TARGET -T {of})\"; ");
        }
        for (folder, of) in &self.instead {
            script += &format!("mount --bind '{}' {of}; ", folder.display());
        }
        script + "exec \"$@\""
    }
}
