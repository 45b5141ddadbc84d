//! `cargo xtask first-build`: measures a newcomer's first build, from an empty target folder until a cluster answers kubectl.

mod costs;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::steps::children_seconds;
use crate::tool::{cargo, now, output, processors, root, run as exec, say, target};

/// How often kubectl looks for a ready node; each look is a process of some 50 ms.
const LOOKS: usize = 200;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often.
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: usize,
    /// Print a table of the processor time that each package took.
    #[arg(long)]
    by_package: bool,
}

impl Args {
    /// Three runs.
    pub(crate) fn thrice() -> Self {
        Self { runs: 3, by_package: false }
    }
}

/// Builds `--release` from nothing (the crates' sources are downloaded before), starts `up` and asks for the nodes; prints a JSON line for each run.
///
/// # Errors
/// When it does not build, or no node answers.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    exec(cargo().args(["fetch", "--locked"]))?;
    let folder = target().join("first-build");
    for number in 1..=args.runs {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let (start, busy) = (now(), children_seconds()?);
        let mut build = cargo();
        build.args(["build", "--release"]).env("CARGO_TARGET_DIR", &folder);
        if args.by_package {
            costs::watch(&mut build)?;
        }
        exec(&mut build)?;
        let (built, work) = (start.elapsed(), children_seconds()? - busy);
        if args.by_package {
            say(&costs::table(work)?);
        }
        let cluster = Cluster::up(&folder)?;
        cluster.wait_for_a_node()?;
        let said = serde_json::json!({
            "run": number, "cores": processors(), "build_s": built.as_secs_f64().round(), "build_cpu_s": work.round(),
            "until_nodes_s": start.elapsed().as_secs_f64().round(),
            "executable_mib": fs::metadata(folder.join("release/oarlock"))?.len() >> 20,
        });
        say(&said.to_string());
    }
    Ok(())
}

/// A running `oarlock up`; it ends with this value.
struct Cluster {
    child: Child,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn up(built: &std::path::Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(built.join("release/oarlock"));
        command.args(["up", "--ephemeral", "--port", "0", "--data-dir"]).arg(folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).current_dir(root()).spawn()?;
        let out = child.stdout.take().context("it has an output")?;
        let cluster = Self { child, folder };
        let ready =
            BufReader::new(out).lines().map_while(Result::ok).any(|line| line.starts_with("export KUBECONFIG="));
        ensure!(ready, "oarlock up has ended");
        Ok(cluster)
    }

    fn wait_for_a_node(&self) -> anyhow::Result<()> {
        let mut nodes = String::new();
        for _ in 0..LOOKS {
            let mut kubectl = Command::new("kubectl");
            kubectl.env("KUBECONFIG", self.folder.path().join("kubeconfig")).args(["get", "nodes", "--no-headers"]);
            nodes = output(&mut kubectl)?;
            if nodes.contains(" Ready ") {
                return Ok(());
            }
        }
        bail!("no node is ready: {nodes}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _it_is_gone = self.child.wait();
    }
}
