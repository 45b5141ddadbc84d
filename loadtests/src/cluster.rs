//! The server under test: started in a fresh directory, measured through /proc, ended by its own pid.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::args::Args;

const START: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Cluster {
    child: Child,
    directory: TempDir,
    /// From the start of the process to its word that it is ready.
    pub(crate) ready: Duration,
}

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) rss: u64,
    /// CPU time in seconds.
    pub(crate) cpu: f64,
}

impl Cluster {
    /// Starts a durable server in a fresh directory with these further flags of `up`.
    pub(crate) async fn start(args: &Args, flags: &[&str]) -> anyhow::Result<Self> {
        Self::resume(args, flags, tempfile::tempdir()?).await
    }

    /// Starts a server on what one before it left.
    pub(crate) async fn resume(args: &Args, flags: &[&str], directory: TempDir) -> anyhow::Result<Self> {
        let mut command = Command::new(&args.oarlock);
        command.arg("up").arg("--data-dir").arg(directory.path()).args(["--port", "0"]).args(flags);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let begun = now();
        let mut child = command
            .spawn()
            .with_context(|| format!("{}: build it with cargo build --release", args.oarlock.display()))?;
        let stdout = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let wait = async {
            while let Some(line) = lines.next_line().await? {
                if line.starts_with("export KUBECONFIG=") {
                    return Ok(begun.elapsed());
                }
            }
            bail!("the server ended before it was ready")
        };
        let ready = tokio::time::timeout(START, wait).await.context("the server is not ready in time")??;
        Ok(Self { child, directory, ready })
    }

    /// The user's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// What the server has used so far.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let pid = self.child.id().context("the server has ended")?;
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
        Ok(Usage { rss: kib.parse::<u64>()? * 1024, cpu: ticks.iter().sum::<f64>() / 100.0 })
    }

    /// Ends the server; what it stored is in the directory.
    pub(crate) async fn stop(mut self) -> anyhow::Result<TempDir> {
        self.child.kill().await?;
        Ok(self.directory)
    }
}

/// Real time: a load test measures nothing else.
#[expect(clippy::disallowed_methods, reason = "a load test measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
