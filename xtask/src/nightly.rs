//! `cargo xtask nightly`: what the gate has no time for.

use std::process::Command;

use anyhow::{bail, ensure};

use crate::compile::{Executable, compile, compile_plain};
use crate::steps::Steps;
use crate::tests::{self, Selection, Tier, VIRTUAL};
use crate::tool::{cargo, output, root, run as exec, say, target};
use crate::{ci, docs, faults, first_build, peer};

/// Seeds of each sweep under virtual time, beyond those of the ordinary tests.
const SEEDS: &str = "2000";
/// How often a flaky test is repeated.
const FLAKY_RUNS: usize = 50;
/// A version that reads deny.toml; it is compiled into target/tools.
const CARGO_DENY: &str = "0.20.2";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps, by the names that the table at the end shows.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    only: Vec<String>,
}

/// Runs every step, also after one that failed, and prints what each cost.
///
/// # Errors
/// When a step failed; the last lines name them.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    ci::sources(&mut steps)?;
    let executables = steps.step("compile, peers", || ci::beside(|| peer::prepare(peer::ALL), compile))?;
    let executables = &executables;
    let everything = Selection { tier: Tier::Nightly, affected: None, bugs: true };
    let chores: [(&'static str, &dyn Fn() -> anyhow::Result<()>); 8] = [
        ("tests", &|| tests::run(executables, everything)),
        ("seeds", &|| seeds(executables)),
        ("flaky", &|| flaky(executables)),
        ("faults", &|| faults::run(&faults::Args::once())),
        ("plain", &|| tests::run(&compile_plain()?, Selection { bugs: false, ..everything })),
        ("deny", &deny),
        ("docs", &docs::run),
        ("first build", &|| first_build::run(&first_build::Args::thrice())),
    ];
    if let Some(name) = args.only.iter().find(|only| !chores.iter().any(|(name, _)| name == only)) {
        bail!("no step {name}: there are {}", chores.map(|(name, _)| name).join(", "));
    }
    let mut failed = Vec::new();
    for (name, chore) in chores {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == name) {
            continue;
        }
        if let Err(error) = steps.step(name, chore) {
            failed.push(format!("{name}: {error:#}"));
        }
    }
    say(&steps.table());
    ensure!(failed.is_empty(), "nightly failed:\n  {}", failed.join("\n  "));
    Ok(())
}

/// Sweeps many seeds of the worlds under virtual time.
fn seeds(executables: &[Executable]) -> anyhow::Result<()> {
    for executable in executables.iter().filter(|executable| executable.package == VIRTUAL) {
        ensure!(executable.show(executable.command().env("OARLOCK_SEEDS", SEEDS))?, "a seed failed");
    }
    Ok(())
}

/// Repeats each test that is known to be flaky.
fn flaky(executables: &[Executable]) -> anyhow::Result<()> {
    let mut red = Vec::new();
    for row in tests::flaky::listed()? {
        let Some(executable) = executables.iter().find(|executable| executable.name() == row.executable) else {
            bail!("tests/flaky.toml: there is no {}", row.executable);
        };
        let mut failures = 0;
        for _ in 0..FLAKY_RUNS {
            failures += usize::from(!executable.show(executable.command().args(["--exact", &row.name]))?);
        }
        say(&format!("{} of {}: {failures} of {FLAKY_RUNS} runs failed", row.name, row.executable));
        if failures > 0 {
            red.push(row.name);
        }
    }
    ensure!(red.is_empty(), "still flaky: {}", red.join(", "));
    Ok(())
}

/// Licences, sources and bans of third-party crates. Advisories too, where their database can be fetched.
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
