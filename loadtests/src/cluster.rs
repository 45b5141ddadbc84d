//! A running cluster, measured through /proc.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::Child;

use crate::share::Members;

/// How long servers may take to end.
const STOP: Duration = Duration::from_secs(30);

/// A directory for a cluster and its keys, and an etcd; both are removed with the value.
pub(crate) type Directory = (TempDir, Option<Members>);

/// The running servers of one subject.
pub(crate) struct Cluster {
    child: Child,
    directory: Directory,
    /// The administrator's.
    pub(crate) kubeconfig: PathBuf,
    pids: Vec<(String, u32)>,
    /// From the first exec until everything was ready.
    pub(crate) ready: Duration,
}

/// What processes have used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) rss: u64,
    /// CPU time in seconds.
    pub(crate) cpu: f64,
    /// What of that is not etcd's.
    pub(crate) api: f64,
}

impl Cluster {
    /// Servers that `child` is, or keeps.
    pub(crate) fn new(
        child: Child,
        directory: Directory,
        kubeconfig: PathBuf,
        pids: Vec<(String, u32)>,
        ready: Duration,
    ) -> Self {
        Self { child, directory, kubeconfig, pids, ready }
    }

    /// State and keys; `pki/ca.crt` and `pki/ca.key` are the cluster's authority.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.0.path()
    }

    /// The pids of the processes whose names have this prefix, in their order.
    pub(crate) fn pids(&self, begins: &str) -> Vec<u32> {
        self.pids.iter().filter(|(name, _)| name.starts_with(begins)).map(|(_, pid)| *pid).collect()
    }

    /// Where the members of an etcd of our own answer.
    pub(crate) fn etcd(&self) -> Vec<String> {
        self.directory.1.as_ref().map(|members| members.etcd.endpoints()).unwrap_or_default()
    }

    /// What all servers have used so far.
    ///
    /// # Errors
    /// When one has ended.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for (name, pid) in &self.pids {
            let one = Usage::of(*pid).with_context(|| format!("{name} has ended"))?;
            let api = if name.starts_with("etcd") { 0.0 } else { one.cpu };
            sum = sum.and(Usage { api, ..one });
        }
        Ok(sum)
    }

    /// Ends the servers, ours by pid and upstream's by closing the keeper's standard input. Removes their files.
    ///
    /// # Errors
    /// When the servers do not end.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.leave().await.map(drop)
    }

    /// Ends the servers, ours with SIGKILL, and returns their files.
    ///
    /// # Errors
    /// When the servers do not end.
    pub(crate) async fn leave(mut self) -> anyhow::Result<Directory> {
        drop(self.child.stdin.take());
        if self.pids.iter().any(|(_, pid)| Some(*pid) == self.child.id()) {
            self.child.start_kill()?;
        }
        tokio::time::timeout(STOP, self.child.wait()).await.context("the servers do not end")??;
        Ok(self.directory)
    }
}

impl Usage {
    /// What a process has used so far.
    ///
    /// # Errors
    /// When the process has ended.
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|v| v.split_whitespace().next())
            .context("no VmRSS")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
        // Linux counts in hundredths of a second on every architecture we run on (USER_HZ).
        let cpu = ticks.iter().sum::<f64>() / 100.0;
        Ok(Self { rss: kib.parse::<u64>()? * 1024, cpu, api: cpu })
    }

    /// That of two processes together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { rss: self.rss + other.rss, cpu: self.cpu + other.cpu, api: self.api + other.api }
    }

    /// Microseconds of CPU since `before`, for each of `count`.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn micros_each(self, before: Self, count: usize) -> f64 {
        (self.cpu - before.cpu) * 1e6 / count as f64
    }

    /// As [`Usage::micros_each`], without etcd.
    pub(crate) fn api_micros_each(self, before: Self, count: usize) -> f64 {
        Self { cpu: self.api, ..self }.micros_each(Self { cpu: before.api, ..before }, count)
    }

    /// KiB of memory since `before`, for each of `count`.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn kib_each(self, before: Self, count: usize) -> f64 {
        self.rss.saturating_sub(before.rss) as f64 / 1024.0 / count as f64
    }
}
