//! Load tests: starts an `oarlock` of its own, or upstream, and measures it from outside. `cargo run --profile dist -p oarlock-loadtests -- --help`.
//!
//! Every scenario is bounded in count and time and talks to the loopback address only. Each leg prints one JSON line; a table ends the run.

mod against;
mod args;
mod clock;
mod cluster;
mod connection;
mod crew;
mod following;
mod kinds;
mod machine;
mod output;
mod replicated;
mod report;
mod scenarios;
mod share;
mod subject;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Compare};
use machine::{Machine, Quiet};
use report::Report;
use scenarios::Scenario;
use subject::{Bench, Subject};

/// As in `oarlock`: the write path is measured in this process too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            // A program that asks for a verdict must not read one from this.
            if args.beside().is_some() { against::UNMEASURED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let scenarios = args.scenarios()?;
    if args.list {
        list(&scenarios);
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.beside() {
        Some(beside) => runtime.block_on(against::run(args, beside, &scenarios)),
        None => runtime.block_on(measure(args, &scenarios)).map(|()| ExitCode::SUCCESS),
    }
}

async fn measure(args: &Args, scenarios: &[Scenario]) -> anyhow::Result<()> {
    let subjects = match args.compare {
        None => vec![Subject::Oarlock],
        Some(Compare::Upstream) => vec![Subject::Oarlock, Subject::Upstream],
    };
    let mut report = Report::new(Machine::look(), subjects.clone());
    // What has failed is told last, with what was measured before it: a run takes long.
    let mut failed = Vec::new();
    for scenario in scenarios {
        let oarlock = args.oarlock.clone().unwrap_or_else(|| args::OARLOCK.into());
        let bench = Bench { oarlock, setting: scenario.setting.clone(), peers: args.peers.clone() };
        for round in 0..args.rounds.unwrap_or(scenario.rounds) {
            // In turns, so that a machine that changes its speed changes it for both.
            for subject in subjects.iter().filter(|subject| scenario.is_for(**subject)) {
                let quiet = if args.anyway { Quiet::look().await? } else { Quiet::wait().await? };
                let figures = scenario.run(&bench, *subject).await;
                match figures {
                    Ok(figures) => report.add(&scenario.name, *subject, round, quiet, figures),
                    Err(why) => failed.push(format!("{} of {}: {why:#}", scenario.name, subject.name())),
                }
            }
        }
    }
    if !args.json {
        report.print();
    }
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join("; "));
    let exceeded = report.exceeded();
    anyhow::ensure!(exceeded.is_empty(), "over its limit by more than the noise: {}", exceeded.join("; "));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an answer to the person who asks")]
fn list(scenarios: &[Scenario]) {
    for scenario in scenarios {
        println!("{:<31} {}", scenario.name, scenario.about);
    }
}

#[expect(clippy::print_stderr, reason = "an answer to the person who asks")]
fn complain(error: &anyhow::Error) {
    eprintln!("Error: {error:?}");
}
