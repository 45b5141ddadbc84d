//! The machine of a measurement, and whether it had other work.

use std::fmt;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::clock::now;

/// How long to look at the processors.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Looks before the machine counts as busy for good.
const LOOKS: usize = 60;
/// A processor this busy with other things makes figures worthless, in percent of all.
const BUSY: f64 = 10.0;
/// Syncs of the disk probe, each after a write of this many bytes.
const SYNCS: usize = 50;
const RECORD: usize = 2048;

/// What a report says of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The measured commit, with a `+` when files differ from it.
    pub(crate) commit: String,
    cores: usize,
    gib: u64,
    model: String,
}

impl Machine {
    /// Looks.
    pub(crate) fn look() -> Self {
        let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let changed = !changed().is_empty();
        let line = |path: &str, key: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kib = line("/proc/meminfo", "MemTotal").and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
        Self {
            commit: if changed { commit + "+" } else { commit },
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            gib: kib.unwrap_or(0).div_ceil(1 << 20),
            model: line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned()),
        }
    }
}

/// The files that differ from the commit, as git names them.
pub(crate) fn changed() -> Vec<String> {
    let status = git(&["status", "--porcelain", "-uno"]).unwrap_or_default();
    status.lines().filter_map(|line| Some(line.trim_start().split_once(' ')?.1.trim().to_owned())).collect()
}

/// Git's output without surrounding space; none when git fails.
pub(crate) fn git(words: &[&str]) -> Option<String> {
    let out = Command::new("git").args(words).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, cores, gib, model } = self;
        write!(f, "Commit {commit}; {cores} cores ({model}), {gib} GiB; the generator runs on the same cores.")
    }
}

/// What else went on just before a leg.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quiet {
    /// The busy share of all processors, in percent.
    pub(crate) busy: f64,
    /// Median of a write of 2 KiB and its sync, in milliseconds.
    pub(crate) sync_ms: f64,
}

impl Quiet {
    /// Looks for a second, and syncs a file some times.
    ///
    /// # Errors
    /// When /proc or the temporary directory cannot be used.
    pub(crate) async fn look() -> anyhow::Result<Self> {
        let (busy, all) = processors()?;
        tokio::time::sleep(SAMPLE_INTERVAL).await;
        let (busy_then, all_then) = processors()?;
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let busy = (busy_then - busy) as f64 / (all_then - all).max(1) as f64 * 100.0;
        let mut file = tempfile::tempfile()?;
        let mut times = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let begun = now();
            file.write_all(&[0; RECORD])?;
            file.sync_data()?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        Ok(Self { busy, sync_ms: times.get(SYNCS / 2).copied().unwrap_or_default() })
    }

    /// Looks until the machine is quiet.
    ///
    /// # Errors
    /// When the machine stays busy.
    pub(crate) async fn wait() -> anyhow::Result<Self> {
        let mut quiet = Self::look().await?;
        for _ in 1..LOOKS {
            if quiet.busy < BUSY {
                return Ok(quiet);
            }
            quiet = Self::look().await?;
        }
        bail!("the processors are {:.0} % busy with something else; --anyway measures all the same", quiet.busy)
    }
}

/// Ticks of all processors: busy ones, all.
fn processors() -> anyhow::Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}
