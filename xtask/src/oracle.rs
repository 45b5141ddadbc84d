//! `cargo xtask oracle`: records upstream's answers to the scripts of tests/oracle, or checks ours against them.

use std::path::PathBuf;

use clap::Subcommand;

use crate::peer::{self, Peer, Size};
use crate::tool::{cargo, run as exec};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build and start upstream, play every script at it, write its answers to tests/oracle/recorded.
    Record {
        /// Folder that holds kube-apiserver and etcd; without it they are built from their Go modules.
        #[arg(long, env = "PEER_BIN", value_name = "DIR")]
        bin: Option<PathBuf>,
        /// Only scripts whose name begins so, as `core/pods`.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Play every script at an `oarlock` of our own and compare. Needs no Go.
    Check {
        /// Passed on to `oracle check`, as `--only core/pods` or `--prune`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Runs the chore.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut oracle = cargo();
    oracle.args(["run", "--quiet", "-p", "oarlock-tests-oracle", "--"]);
    match &args.verb {
        Verb::Check { words } => exec(oracle.arg("check").args(words)),
        Verb::Record { bin, only } => {
            let bin = bin.clone().map_or_else(|| peer::build(&peer::folder(), &peer::SERVERS), Ok)?;
            let upstream = Peer::start(&bin, &peer::folder().join("run"), &[], &[], Size::ONE, &[])?;
            exec(oracle.args(["record", "--only", only, "--kubeconfig"]).arg(&upstream.kubeconfig))
        }
    }
}
