//! `cargo xtask ci`: the gate; the steps that fail fastest come first.

use anyhow::{Context, anyhow};

use crate::compile::compile;
use crate::steps::Steps;
use crate::tests::{Selection, Tier};
use crate::tool::{cargo, run as exec, say};
use crate::{
    check_circles, check_layers, check_sizes, check_tests, check_tracing, dashboards, peer, seeded_bugs, since, tests,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the seeded bugs.
    #[arg(long)]
    quick: bool,
    /// Test only what depends on files that differ from this commit; the oracle, the transcript and the checks of the sources always run.
    #[arg(long, value_name = "REF")]
    since: Option<String>,
}

type Check = fn() -> anyhow::Result<()>;

/// Checks that need no compiler and take seconds: every run has all of them, whatever has changed.
const SOURCES: &[(&str, Check)] = &[
    ("format", || exec(cargo().args(["fmt", "--all", "--check"]))),
    ("layers", check_layers::run),
    ("circles", check_circles::run),
    ("sizes", check_sizes::run),
    ("tests", check_tests::run),
    ("tracing", check_tracing::run),
    ("dashboards", dashboards::check),
    ("seeded bugs", seeded_bugs::complete),
];

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

/// Checks the sources; `--since` leaves none of that out.
///
/// # Errors
/// Those of the first check that fails, with its name.
pub(crate) fn sources(steps: &mut Steps) -> anyhow::Result<()> {
    steps.step("sources", || SOURCES.iter().try_for_each(|(name, check)| check().context(*name)))
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
