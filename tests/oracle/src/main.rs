//! `oracle record|check`: see the crate's documentation and docs/operations/oracle.md.
#![expect(clippy::print_stdout, reason = "a tool talks to the person who runs it")]

use std::path::PathBuf;

use anyhow::bail;
use clap::{Parser, Subcommand};
use oarlock_tests_oracle::check::{self, Findings};
use oarlock_tests_oracle::server::{Server, binary};

/// Plays our requests at a server, to record its answers or to compare them with the recorded ones.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Play at the server of a kubeconfig and write its answers down.
    Record {
        /// The administrator's kubeconfig of a fresh upstream server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Only scenarios whose name begins so, as `core/pods`.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Play and compare.
    Check {
        /// A running server; without it one of our own is built and started.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Only scenarios whose name begins so.
        #[arg(long, default_value = "")]
        only: String,
        /// Show where known differences differ, too.
        #[arg(long)]
        verbose: bool,
        /// Take cases that are equal now off the list of known differences.
        #[arg(long)]
        prune: bool,
        /// List what differs and is not listed, for this reason.
        #[arg(long, value_name = "REASON")]
        accept: Option<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Record { kubeconfig, only } => println!("{} answers recorded", check::record(&kubeconfig, &only).await?),
        Verb::Check { kubeconfig, only, verbose, prune, accept } => {
            let server = if kubeconfig.is_some() { None } else { Some(Server::start(&binary()?)?) };
            let own = server.as_ref().map(|server| server.kubeconfig.clone());
            let kubeconfig = kubeconfig.or(own).unwrap_or_default();
            let findings = check::check(&kubeconfig, &only).await?;
            show(&findings, verbose);
            if prune || accept.is_some() {
                check::update(&findings, &only, accept.as_deref())?;
            } else if !findings.passed() {
                bail!("answers differ from the record, or the list of known differences is out of date");
            }
        }
    }
    Ok(())
}

fn show(findings: &Findings, verbose: bool) {
    for (case, differences) in &findings.different {
        if verbose || findings.unknown.contains(case) {
            println!("{case}");
            differences.iter().take(12).for_each(|difference| println!("    {difference}"));
        }
    }
    for case in &findings.stale {
        println!("{case}\n    is equal now: take it off the list (`oracle check --prune`)");
    }
    println!("{}", findings.counts());
}
