//! `cargo xtask nightly`: the checks and tests that take too long for the gate.

use std::process::Command;

use anyhow::{bail, ensure};

use crate::compile::{Executable, compile, compile_plain, compile_released};
use crate::steps::Steps;
use crate::tests::{self, Selection, Tier, VIRTUAL};
use crate::tool::{cargo, output, root, run as exec, say, target};
use crate::{ci, conformance, faults, first_build, older, peer};

/// The tests that sweep seeds under virtual time, by how their names begin.
const SWEEPS: [&str; 4] = ["replicas::seeds_", "crew::units_", "crew::cloud::", "shards::shards_"];
/// Seeds of each sweep, beyond those of the ordinary tests.
const SEEDS: usize = 2000;
/// Seeds that one process runs. The memory of servers that a seed kills is freed only with the process, up to 10 MiB for each seed.
const SEEDS_PER_PROCESS: usize = 100;
/// How often a flaky test is repeated.
const FLAKY_RUNS: usize = 50;
/// A version that reads deny.toml; it is compiled into target/tools.
const CARGO_DENY: &str = "0.20.2";

/// A step after the checks of the sources.
enum Chore {
    /// The step runs test executables of the workspace's build.
    Tests(fn(&[Executable]) -> anyhow::Result<()>),
    /// The step builds what it needs itself.
    Alone(fn() -> anyhow::Result<()>),
}

/// The steps, in their order.
const CHORES: &[(&str, Chore)] = &[
    ("tests", Chore::Tests(|executables| tests::run(executables, EVERYTHING))),
    ("seeds", Chore::Alone(seeds)),
    ("flaky", Chore::Tests(flaky)),
    ("faults", Chore::Tests(|_| faults::run(&faults::Args::once()))),
    ("older", Chore::Tests(|executables| older::with(&older::Args::upgrades(), executables))),
    ("plain", Chore::Tests(|_| plain())),
    ("deny", Chore::Alone(deny)),
    ("conformance", Chore::Alone(|| conformance::run(&conformance::Args::golden()))),
    ("first build", Chore::Alone(|| first_build::run(&first_build::Args::thrice()))),
    ("cost of release", Chore::Alone(cost_of_release)),
];
const EVERYTHING: Selection = Selection { tier: Tier::Nightly, affected: None, bugs: true, docs: true };

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps, by the names that the table at the end shows; the workspace is compiled where one of them needs its tests.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    only: Vec<String>,
}

/// Runs every step, also after one that failed, and prints what each cost.
///
/// # Errors
/// When a step failed; the last lines name them.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(name) = args.only.iter().find(|only| !CHORES.iter().any(|(name, _)| name == only)) {
        bail!("no step {name}: there are {}", CHORES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "));
    }
    let chosen = || CHORES.iter().filter(|(name, _)| args.only.is_empty() || args.only.iter().any(|only| only == name));
    let mut steps = Steps::default();
    ci::sources(&mut steps)?;
    let mut executables = Vec::new();
    // Upstream's programs for conformance take longer to build than everything here.
    let programs = if chosen().any(|(name, _)| *name == "conformance") { conformance::PROGRAMS } else { &[] };
    if chosen().any(|(_, chore)| matches!(chore, Chore::Tests(_))) {
        executables =
            steps.step("compile, peers", || ci::beside(|| peer::prepare(&[peer::ALL, programs].concat()), compile))?;
    }
    let mut failed = Vec::new();
    for (name, chore) in chosen() {
        let outcome = steps.step(name, || match chore {
            Chore::Tests(run) => run(&executables),
            Chore::Alone(run) => run(),
        });
        if let Err(error) = outcome {
            failed.push(format!("{name}: {error:#}"));
        }
    }
    say(&steps.table());
    ensure!(failed.is_empty(), "nightly failed:\n  {}", failed.join("\n  "));
    Ok(())
}

/// Sweeps many seeds of the worlds under virtual time.
fn seeds() -> anyhow::Result<()> {
    let executables = compile_released(VIRTUAL)?;
    for begin in SWEEPS {
        let swept: usize = executables.iter().map(|executable| sweep(executable, begin)).sum::<anyhow::Result<_>>()?;
        ensure!(swept > 0, "no test of {VIRTUAL} begins with {begin}");
    }
    Ok(())
}

/// Runs the seeds of the tests whose names begin with `begin`. Returns the number of these tests.
fn sweep(executable: &Executable, begin: &str) -> anyhow::Result<usize> {
    let tests: Vec<_> = executable.tests()?.into_iter().filter(|name| name.starts_with(begin)).collect();
    for test in &tests {
        for from in (0..SEEDS).step_by(SEEDS_PER_PROCESS) {
            let seeds = format!("{from}..{}", from + SEEDS_PER_PROCESS);
            say(&format!("{test}, seeds {seeds}"));
            let mut run = executable.command();
            run.args(["--exact", test]).env("OARLOCK_SEEDS", &seeds);
            ensure!(executable.show(&mut run)?, "{test}: one of the seeds {seeds} failed");
        }
    }
    Ok(tests.len())
}

/// Repeats each test that is known to be flaky.
fn flaky(executables: &[Executable]) -> anyhow::Result<()> {
    let mut red = Vec::new();
    for row in tests::flaky::listed()? {
        let failures = tests::repeat(executables, &row, FLAKY_RUNS)?;
        say(&format!("{} of {}: {failures} of {FLAKY_RUNS} runs failed", row.name, row.executable));
        if failures > 0 {
            red.push(row.name);
        }
    }
    ensure!(red.is_empty(), "still flaky: {}", red.join(", "));
    Ok(())
}

/// Runs the tests of a build without seeded bugs.
fn plain() -> anyhow::Result<()> {
    tests::run(&compile_plain()?, Selection { bugs: false, docs: false, ..EVERYTHING })
}

/// Measures how much slower than `dist` the quickly compiled profile is; more than the load tests allow is an error.
fn cost_of_release() -> anyhow::Result<()> {
    let measure = ["run", "--profile", "dist", "-p", "oarlock-loadtests", "--", "--cost-of-profile", "release"];
    exec(cargo().args(measure).current_dir(root()))
}

/// Checks licences, sources and bans of third-party crates. Advisories too, where their database can be fetched.
fn deny() -> anyhow::Result<()> {
    let tools = target().join("tools");
    exec(cargo().args(["install", "--locked", "--root"]).arg(&tools).arg(format!("cargo-deny@{CARGO_DENY}")))?;
    let deny = || {
        let mut command = Command::new(tools.join("bin/cargo-deny"));
        command.args(["check"]).current_dir(root());
        command
    };
    exec(deny().args(["bans", "licenses", "sources"]))?;
    if let Err(error) = output(deny().arg("advisories")) {
        ensure!(error.to_string().contains("failed to fetch"), "{error:#}");
        say("left out: advisories, whose database cannot be fetched here");
    }
    Ok(())
}
