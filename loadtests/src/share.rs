//! Bounds the processor time of a process with cgroups, as if the process had a host of its own.
//!
//! By the kernel's bandwidth control (cgroups v1 or v2, <https://docs.kernel.org/scheduler/sched-bwc.html>), which only root may set up.

use std::path::{Path, PathBuf};

use anyhow::Context;
use oarlock_testkit::Etcd;

use crate::output::say;

const ROOT: &str = "/sys/fs/cgroup";
/// Of which a process may run its share, in µs: short beside what is measured, so that nobody pauses for long.
const PERIOD: f64 = 10_000.0;

/// An etcd whose members each have this share of a processor.
pub(crate) struct Members {
    pub(crate) etcd: Etcd,
    // Behind it: a group goes when nobody is in it any more.
    _shares: Vec<Share>,
}

impl Members {
    /// Gives each member so much of a processor; all of them when `None`.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub(crate) fn new(etcd: Etcd, processors: Option<f64>) -> anyhow::Result<Self> {
        let pids = etcd.pids().into_iter();
        let shares = processors.map(|share| pids.map(|pid| Share::new(pid, share)).collect::<Result<_, _>>());
        Ok(Self { etcd, _shares: shares.transpose()?.unwrap_or_default() })
    }
}

/// A cgroup with a bound, removed when dropped.
pub(crate) struct Share(PathBuf);

impl Share {
    /// Gives a process so much of a processor.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub(crate) fn new(pid: u32, processors: f64) -> anyhow::Result<Self> {
        let name = format!("oarlock-loadtests-{pid}");
        let second = Path::new(ROOT).join("cgroup.controllers").exists();
        let share = Self(if second { Path::new(ROOT).join(name) } else { Path::new(ROOT).join("cpu").join(name) });
        let quota = (processors * PERIOD).round();
        let bounds: &[(&str, String)] = if second {
            &[("../cgroup.subtree_control", "+cpu".to_owned()), ("cpu.max", format!("{quota} {PERIOD}"))]
        } else {
            &[("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        };
        let why = || format!("{}: a process can be bounded by root alone, with cgroups", share.0.display());
        std::fs::create_dir(&share.0).with_context(why)?;
        for (file, text) in bounds.iter().chain([&("cgroup.procs", pid.to_string())]) {
            std::fs::write(share.0.join(file), text).with_context(|| format!("{file}={text}")).with_context(why)?;
        }
        Ok(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.0) {
            say(&format!("{}: {error}", self.0.display()));
        }
    }
}
