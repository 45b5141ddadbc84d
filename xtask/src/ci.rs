//! `cargo xtask ci`: the gate, in the order in which it fails soonest.

use anyhow::anyhow;

use crate::compile::compile;
use crate::steps::Steps;
use crate::tests::{Selection, Tier};
use crate::tool::{cargo, run as exec, say};
use crate::{check_circles, check_layers, check_sizes, check_tests, peer, seeded_bugs, since, tests};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the seeded bugs.
    #[arg(long)]
    quick: bool,
    /// Test only what depends on files that differ from this commit; the oracle, the transcript and the checks of the sources always run.
    #[arg(long, value_name = "REF")]
    since: Option<String>,
}

/// Runs every step and prints what each cost.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let changed = args.since.as_deref().map(since::affected).transpose()?;
    sources(&mut steps)?;
    let executables = steps.step("compile, peers", || beside(|| peer::prepare(peer::GATE), compile))?;
    let selection = Selection { tier: Tier::Gate, affected: changed.as_ref(), bugs: !args.quick, docs: true };
    steps.step("tests, seeded bugs, docs", || tests::run(&executables, selection))?;
    say(&steps.table());
    Ok(())
}

/// What needs no compiler.
pub(crate) fn sources(steps: &mut Steps) -> anyhow::Result<()> {
    steps.step("sources", || {
        exec(cargo().args(["fmt", "--all", "--check"]))?;
        check_layers::run()?;
        check_circles::run(&check_circles::Args::default())?;
        check_sizes::run()?;
        check_tests::run()?;
        seeded_bugs::complete()
    })
}

/// Does two things at once; the outcome is that of the second.
pub(crate) fn beside<T>(first: impl FnOnce() + Send, second: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let outcome = second();
        first.join().map_err(|_| anyhow!("what ran beside panicked"))?;
        outcome
    })
}
