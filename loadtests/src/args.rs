//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures an oarlock that this command starts and ends itself, and upstream beside it if asked.
#[derive(Clone, Debug, Parser)]
#[command(name = "oarlock-loadtests", version, about)]
pub(crate) struct Args {
    /// Scenarios to run, by name, by how names begin (`takeover-*`), or as TOML files like those in loadtests/scenarios; all of ours that are not long when
    /// none is named.
    pub(crate) scenarios: Vec<String>,
    /// The executable to measure.
    #[arg(long, default_value = "target/dist/oarlock", value_name = "FILE")]
    pub(crate) oarlock: PathBuf,
    /// Measure this beside it, in turns, and print ratios. Upstream's programs are built from their Go modules when they are not there.
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) compare: Option<Compare>,
    /// How often each scenario is repeated, whatever its file says.
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Measure although something else keeps the processors busy.
    #[arg(long)]
    pub(crate) anyway: bool,
    /// List the scenarios and end.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print only JSON lines, no table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be measured beside us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compare {
    /// Upstream's Kubernetes and etcd.
    Upstream,
}
