//! A host for the package: Debian in a folder, with systemd as process 1 of namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::conformance::wait;
use crate::tool::{capture, output, run, say};

/// Mounts what a host needs, and starts systemd.
const BOOT: &str = include_str!("boot.sh");
/// Limit of one step; all of them take seconds on an idle machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);
const CGROUPS: &str = "/sys/fs/cgroup";
/// What a host has before the package comes.
const PACKAGES: [&str; 8] = [
    "adduser",
    "busybox-static",
    "containerd",
    "containernetworking-plugins",
    "dbus",
    "iproute2",
    "procps",
    "systemd-sysv",
];

/// A running host. It ends with this value, with all its processes.
pub(super) struct Host {
    /// `unshare`, whose child is systemd.
    boot: Child,
    /// Name of the host's cgroup in each hierarchy.
    group: String,
    log: PathBuf,
}

impl Host {
    /// Boots the system in the folder `root`.
    ///
    /// # Errors
    /// When systemd does not start.
    pub(super) fn boot(root: &Path, log: PathBuf) -> anyhow::Result<Self> {
        let group = format!("oarlock-package-{}", std::process::id());
        let file = fs::File::create(&log).with_context(|| log.display().to_string())?;
        let mut boot = Command::new("sh");
        boot.args(["-c", BOOT, "boot"]).arg(root).arg(&group);
        boot.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let host = Self { boot: boot.spawn()?, group, log };
        host.until("systemd has started", "systemctl is-system-running || true", |state| {
            ["running", "degraded"].contains(&state.trim())
        })?;
        Ok(host)
    }

    /// Returns systemd's process id, as the machine sees it.
    fn init(&self) -> anyhow::Result<String> {
        let id = self.boot.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(children.split_whitespace().next().context("systemd has not started or has ended")?.to_owned())
    }

    /// Returns a command of the host: a line of shell.
    fn command(&self, line: &str) -> anyhow::Result<Command> {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.init()?);
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]);
        command.args(["env", "-i", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"]);
        command.arg("PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.arg("KUBECONFIG=/var/lib/oarlock/control-plane/kubeconfig").args(["sh", "-ec", line]);
        Ok(command)
    }

    /// Runs a line of shell; returns its output.
    ///
    /// # Errors
    /// With the output, when the line fails.
    pub(super) fn run(&self, line: &str) -> anyhow::Result<String> {
        say(&format!("  # {line}"));
        output(&mut self.command(line)?)
    }

    /// Runs a line of shell until its output is right.
    ///
    /// # Errors
    /// With the last output, when time is up.
    pub(super) fn until(&self, what: &str, line: &str, right: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let mut last = String::new();
        wait::until(what, STEP_TIMEOUT, || {
            let ran = self.command(line).and_then(|mut command| capture(&mut command));
            last = ran.map_or_else(|error| error.to_string(), |(_, said)| said);
            Ok(if right(&last) { Ok(()) } else { Err(last.clone()) })
        })?;
        say(&format!("  {what}"));
        Ok(last)
    }

    /// Ends the host.
    ///
    /// # Errors
    /// When a process or a cgroup is left.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        // Process 1 ends with its parent, and all processes of the namespace with process 1.
        let _it_may_have_ended = self.boot.kill();
        self.boot.wait()?;
        for hierarchy in fs::read_dir(CGROUPS)? {
            let own = hierarchy?.path().join(&self.group);
            if own.exists() {
                wait::until("the host's cgroups are empty", STEP_TIMEOUT, || {
                    Ok(remove(&own).map_err(|error| format!("{}: {error}", own.display())))
                })?;
            }
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            say(&format!("the host of the package, whose log is {}: {error:#}", self.log.display()));
        }
    }
}

/// Removes a cgroup with those below it.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

/// Makes a folder with Debian 12 and what a node needs.
///
/// # Errors
/// When debootstrap fails.
pub(super) fn debian(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let packages = format!("--include={}", PACKAGES.join(","));
    run(Command::new("debootstrap").args(["--variant=minbase", &packages, "bookworm"]).arg(folder))
}
