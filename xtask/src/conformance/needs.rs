//! Checks what a run needs from the machine.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use super::cgroup;
use crate::tool::{capture, root, run as exec, say};

/// Installs the packages that hold the programs.
const INSTALL: &str = "tests/install-conformance";
/// Programs, besides those that are built.
const PROGRAMS: [&str; 13] = [
    "debootstrap",
    "findmnt",
    "gcc",
    "go",
    "ip",
    "iptables",
    "make",
    "mount",
    "nsenter",
    "openssl",
    "runc",
    "tar",
    "unshare",
];
/// The folder of Debian's CNI plugins, which the nodes use.
pub(crate) const PLUGINS: &str = "/usr/lib/cni";
const USED_PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// Installs packages, where that is possible, and looks for everything else.
///
/// # Errors
/// With all that the machine lacks.
pub(crate) fn meet() -> anyhow::Result<()> {
    let mut lacks = Vec::new();
    if is_root()? {
        if let Err(error) = exec(&mut Command::new(root().join(INSTALL))) {
            say(&format!("{error:#}"));
        }
        lacks.extend(lacking_namespaces()?);
        lacks.extend(cgroup::lacking());
    } else {
        lacks.push("root: network namespaces, mounts and containers need it".to_owned());
    }
    let on_path = |program: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    lacks.extend(
        PROGRAMS.iter().filter(|program| !on_path(program)).map(|program| format!("{program} on the PATH ({INSTALL})")),
    );
    let plugins = USED_PLUGINS.iter().map(|plugin| Path::new(PLUGINS).join(plugin));
    lacks.extend(plugins.filter(|file| !file.is_file()).map(|file| format!("{} ({INSTALL})", file.display())));
    ensure!(lacks.is_empty(), "NOTHING WAS RUN. This machine lacks:\n  {}", lacks.join("\n  "));
    Ok(())
}

fn is_root() -> anyhow::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

/// Tries what a sandbox may forbid even to root.
fn lacking_namespaces() -> anyhow::Result<Option<String>> {
    let tried =
        capture(Command::new("unshare").args(["--net", "--mount", "ip", "link", "add", "br0", "type", "bridge"]));
    let (ok, text) = tried?;
    Ok((!ok).then(|| format!("network and mount namespaces with bridges: {}", text.trim())))
}
