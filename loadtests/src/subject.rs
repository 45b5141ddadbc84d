//! The measured system, ours or upstream's, and how its servers are started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use oarlock_testkit::Etcd;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::clock::now;
use crate::cluster::{Cluster, Directory};
use crate::share::Members;

/// How long servers may take to start; a peer's program that is not built yet is built first.
const START: Duration = Duration::from_secs(1800);

/// The subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Ours, in one process.
    Oarlock,
    /// Upstream's release, with etcd, a process each.
    Upstream,
}

impl Subject {
    /// The subject's name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Oarlock => "oarlock",
            Self::Upstream => "upstream",
        }
    }
}

/// Which parts run beside the API server and its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// None.
    Api,
    /// The scheduler.
    Scheduler,
    /// The scheduler and all controllers, without nodes.
    Crew,
}

/// What every leg of a run needs.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    /// The executable to measure, which also simulates nodes for both subjects.
    pub(crate) oarlock: PathBuf,
    /// How the scenario wants ours.
    pub(crate) setting: Setting,
    /// What tunnels are compared with.
    pub(crate) peers: Peers,
}

/// Programs of others beside our tunnel's.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Peers {
    /// Measure upstream's konnectivity-server and konnectivity-agent of this folder beside ours in the scenario `tunnel`. `cargo xtask peer build` makes them.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) konnectivity: Option<PathBuf>,
    /// Measure this HAProxy beside our tunnel in the scenario `tunnel`: what a plain TLS proxy reaches on this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) haproxy: Option<PathBuf>,
}

/// How our servers are started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Setting {
    /// Further flags of `oarlock up`.
    pub(crate) flags: Vec<String>,
    /// Environment variables of `oarlock up`.
    pub(crate) environment: BTreeMap<String, String>,
    /// Members of the etcd that keeps the state; none: the store is in the process. Upstream always has one.
    pub(crate) etcd: usize,
    /// The share of a processor of each member, as if it had a host of its own; no bound if absent.
    etcd_share: Option<f64>,
}

impl Bench {
    /// The same, with further flags for our servers.
    pub(crate) fn with(&self, flags: &[&str]) -> Self {
        let mut with = self.clone();
        with.setting.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        with
    }

    /// The same, with an environment variable for our servers.
    pub(crate) fn with_variable(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        with.setting.environment.insert(name.to_owned(), value.to_owned());
        with
    }

    /// Starts a subject in a fresh directory and waits until it is ready.
    ///
    /// # Errors
    /// When the subject ends, or is not ready in time.
    pub(crate) async fn start(&self, subject: Subject, parts: Parts) -> anyhow::Result<Cluster> {
        match subject {
            Subject::Oarlock => {
                let etcd = self.etcd().await?;
                self.oarlock(parts, (tempfile::tempdir()?, etcd)).await
            }
            Subject::Upstream => Ok(upstream(parts, 1, 1, None).await?.0),
        }
    }

    /// Starts a server of ours over what another left behind.
    ///
    /// # Errors
    /// As [`Bench::start`].
    pub(crate) async fn oarlock(&self, parts: Parts, directory: Directory) -> anyhow::Result<Cluster> {
        let etcd = directory.1.as_ref().map(|members| &members.etcd);
        let begun = now();
        let endpoints = etcd.map(Etcd::endpoints).unwrap_or_default();
        let (child, line) = self.process(parts, directory.0.path(), &endpoints).await?;
        let ready = begun.elapsed();
        let own = ("oarlock".to_owned(), child.id().context("the server has ended")?);
        let members = etcd.into_iter().flat_map(Etcd::pids).map(|pid| ("etcd".to_owned(), pid));
        let pids = std::iter::once(own).chain(members).collect();
        Ok(Cluster::new(child, directory, line.into(), pids, ready))
    }

    /// Starts a process of ours in a folder, over the etcd at these URLs, if any; what its kubeconfig is called.
    ///
    /// # Errors
    /// As [`Bench::start`].
    pub(crate) async fn process(
        &self,
        parts: Parts,
        folder: &Path,
        etcd: &[String],
    ) -> anyhow::Result<(Child, String)> {
        let disabled = match parts {
            Parts::Api => "scheduler,controller-manager,kubelet",
            Parts::Scheduler => "controller-manager,kubelet",
            Parts::Crew => "kubelet",
        };
        let mut command = Command::new(&self.oarlock);
        command.kill_on_drop(true).arg("up").args(["--port", "0", "--disable", disabled]).args(&self.setting.flags);
        command.envs(&self.setting.environment).arg("--data-dir").arg(folder);
        if !etcd.is_empty() {
            command.arg("--etcd-servers").arg(etcd.join(","));
        }
        spawn(command, "export KUBECONFIG=")
            .await
            .with_context(|| format!("{}: build it with cargo build --profile dist", self.oarlock.display()))
    }

    /// The etcd that the scenario wants.
    ///
    /// # Errors
    /// When etcd cannot be built, started, or bounded.
    pub(crate) async fn etcd(&self) -> anyhow::Result<Option<Members>> {
        let members = self.setting.etcd;
        if members == 0 {
            return Ok(None);
        }
        let etcd = tokio::task::spawn_blocking(move || Etcd::start(members)).await?;
        Members::new(etcd.map_err(anyhow::Error::msg)?, self.setting.etcd_share).map(Some)
    }

    /// Starts simulated nodes in a process of their own, on any cluster.
    ///
    /// # Errors
    /// When the server does not start.
    pub(crate) fn nodes(&self, cluster: &Cluster, count: usize) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.oarlock);
        command.arg("kubelet").arg("--kubeconfig").arg(&cluster.kubeconfig).arg("--data-dir").arg(cluster.folder());
        command.args(["--runtime", "sim", "--log", "error", "--count", &count.to_string()]).kill_on_drop(true);
        Ok(command.stdin(Stdio::null()).spawn()?)
    }
}

/// Upstream's programs, which an xtask chore builds and runs: so many API servers over so many members of etcd. Also what the chore has said:
/// among it how the program `without` which it runs is started.
pub(crate) async fn upstream(
    parts: Parts,
    servers: usize,
    members: usize,
    without: Option<&str>,
) -> anyhow::Result<(Cluster, serde_json::Value)> {
    let directory = tempfile::tempdir()?;
    // It ends with its standard input, and ends the others before; killed, it would leave them behind.
    let mut command = oarlock_testkit::cargo();
    command.args(["xtask", "peer", "up", "--dir"]).arg(directory.path());
    command.args(["--servers", &servers.to_string(), "--members", &members.to_string()]);
    match parts {
        Parts::Api => {}
        Parts::Scheduler => drop(command.args(["--with", "kube-scheduler"])),
        Parts::Crew => drop(command.args(["--with", "kube-controller-manager,kube-scheduler"])),
    }
    if let Some(name) = without {
        command.args(["--without", name]);
    }
    let (child, line) = spawn(command.into(), "{").await.context("cargo xtask peer up")?;
    let said: serde_json::Value = serde_json::from_str(&format!("{{{line}"))?;
    let text = |key: &str| said.get(key).and_then(|v| v.as_str()).map(PathBuf::from).context("no kubeconfig");
    let pids = said.get("pids").and_then(|v| v.as_object()).context("no pids")?;
    let pids = pids.iter().filter_map(|(name, pid)| Some((name.clone(), u32::try_from(pid.as_u64()?).ok()?))).collect();
    let ready = said.get("ready_ms").and_then(serde_json::Value::as_f64).context("no ready_ms")?;
    let ready = Duration::from_secs_f64(ready / 1000.0);
    let cluster = Cluster::new(child, (directory, None), text("kubeconfig")?, pids, ready);
    Ok((cluster, said))
}

/// Spawns a program, waits for a line with this prefix, and returns the rest of the line.
async fn spawn(mut command: Command, begins: &str) -> anyhow::Result<(Child, String)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let wait = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(rest) = line.strip_prefix(begins) {
                return Ok(rest.to_owned());
            }
        }
        bail!("it ended before it was ready")
    };
    let rest = tokio::time::timeout(START, wait).await.context("it is not ready in time")??;
    Ok((child, rest))
}
