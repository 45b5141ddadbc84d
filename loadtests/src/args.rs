//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures an oarlock that this command starts and ends itself.
#[derive(Clone, Debug, Parser)]
#[command(name = "oarlock-loadtests", version, about)]
pub(crate) struct Args {
    /// Scenarios to run; all when none is named.
    pub(crate) scenarios: Vec<String>,
    /// The executable to measure.
    #[arg(long, default_value = "target/release/oarlock", value_name = "FILE")]
    pub(crate) oarlock: PathBuf,
    /// Objects that the create scenarios make.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) objects: usize,
    /// Nodes of the schedule and crew scenarios.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) nodes: usize,
    /// Pods of the schedule and crew scenarios.
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    pub(crate) pods: usize,
    /// Print only JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Whether a scenario was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|s| s == name)
    }
}
