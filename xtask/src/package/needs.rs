//! Checks what the test of the package needs from the machine.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::tool::output;

/// Programs that make and enter the host.
const PROGRAMS: [&str; 6] = ["debootstrap", "ip", "kubectl", "mount", "nsenter", "unshare"];

/// Looks for everything that the test needs.
///
/// # Errors
/// With all that the machine lacks.
pub(super) fn meet() -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let mut lacks: Vec<String> =
        PROGRAMS.iter().filter(|program| !there(program)).map(|program| format!("{program} on the PATH")).collect();
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        lacks.push("root: namespaces, mounts and containers need it".to_owned());
    }
    if !Path::new("/sys/fs/cgroup/systemd/cgroup.procs").exists() {
        lacks.push("systemd's hierarchy of cgroup version 1".to_owned());
    }
    ensure!(lacks.is_empty(), "NOTHING WAS RUN. This machine lacks:\n  {}", lacks.join("\n  "));
    Ok(())
}
