//! The workspace's tests and seeded bugs, in one queue.

pub(crate) mod flaky;
mod later;
mod libtest;
mod plan;
pub(crate) mod queue;
pub(crate) mod skips;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::compile::Executable;
use crate::seeded_bugs::{Bug, all_bugs};
use crate::since::{self, Affected, INTEGRATION};
use crate::tool::{processors, root, say, seconds, target};
use flaky::{Failure, Flaky};
use plan::Durations;
use queue::Task;

/// The package whose tests all run in virtual time, so that waiting for a processor does not matter.
pub(crate) const VIRTUAL: &str = "oarlock-tests-sim";
/// The durations of tests in an earlier run: they decide the order and the batches, nothing else.
const DURATIONS: &str = "tests/durations.toml";
/// Duration of the documentation step on one processor, in seconds.
const DOCS: f64 = 80.0;
/// Stands among executables for what seeded bugs took.
const SEEDED_BUGS: &str = "seeded bugs";
/// Processor time that each sweep of seeds may use in the gate. Seconds.
const SEED_BUDGET: &str = "40";

/// The tests to run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tier {
    /// The tests that every change must pass.
    Gate,
    /// Everything.
    Nightly,
}

/// The tests and packages of a run.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) tier: Tier,
    /// The affected packages; `None` for all packages.
    pub(crate) affected: Option<&'a Affected>,
    /// Whether seeded bugs are tried.
    pub(crate) bugs: bool,
    /// Whether documentation is written, out of what the gate's build has made.
    pub(crate) docs: bool,
}

/// The result of a task of the queue.
struct Done {
    failures: Vec<Failure>,
    passed: usize,
    /// The executable, and how long each of its tests took.
    took: (String, Vec<(String, f64)>),
}

/// Runs the tests of these executables and the seeded bugs; prints what failed, what is flaky and what was left out.
///
/// # Errors
/// When a test failed that does not pass when it is run again alone, when a seeded bug is missed, and when a test was left out that is not expected to be; after everything has run.
pub(crate) fn run(executables: &[Executable], selection: Selection) -> anyhow::Result<()> {
    skips::reset()?;
    let known = durations()?;
    let Selection { tier, affected, bugs, docs } = selection;
    let later = later::listed()?;
    let mut tasks = Vec::new();
    for executable in executables {
        let package = &executable.package;
        let mut tests = executable.tests()?;
        tests.retain(|test| since::selects(affected, package, test));
        if tier == Tier::Gate {
            tests.retain(|test| !later.iter().any(|row| row.holds(package, test)));
        }
        let known = known.get(&executable.name());
        let expected = |test: &str| known.and_then(|tests| tests.get(test)).copied().unwrap_or(usual(package));
        for batch in plan::batches(&tests, expected) {
            let seconds = batch.seconds;
            let run = move || tested(executable, tier, &batch.tests);
            tasks.push(Task { seconds, real_time: executable.package != VIRTUAL, run: Box::new(run) });
        }
    }
    let known = known.get(SEEDED_BUGS);
    for bug in all_bugs().filter(|bug| bugs && since::selects(affected, bug.package, bug.test)) {
        let seconds = known.and_then(|bugs| bugs.get(&bug.title())).copied().unwrap_or_else(|| usual(bug.package));
        let run = move || tried(executables, bug);
        tasks.push(Task { seconds, real_time: bug.real_time(), run: Box::new(run) });
    }
    if docs {
        tasks.push(Task { seconds: DOCS, real_time: true, run: Box::new(documented) });
    }
    let done = queue::run(tasks, processors())?;
    let passed: usize = done.iter().map(|done| done.passed).sum();
    let mut measured = Durations::new();
    let mut failures = Vec::new();
    for done in done {
        measured.entry(done.took.0).or_default().extend(done.took.1);
        failures.extend(done.failures);
    }
    fs::write(target().join("durations.toml"), toml::to_string(&plan::worth_keeping(measured))?)?;
    let Flaky { flaky, red } = flaky::judge(failures, |failure| again(executables, tier, failure))?;
    let left_out = skips::judge();
    let skipped = left_out.as_ref().copied().unwrap_or_default();
    say(&format!("\n{} passed, {} failed, {skipped} skipped", passed + flaky, red));
    ensure!(red == 0, "tests failed");
    left_out.map(|_| ())
}

/// Runs a flaky test `times` times, while nothing else runs; returns the number of failures.
///
/// # Errors
/// When the executable does not exist, or when the test was skipped unexpectedly.
pub(crate) fn repeat(executables: &[Executable], row: &flaky::Row, times: usize) -> anyhow::Result<usize> {
    skips::reset()?;
    let failures = flaky::count(times, || again(executables, Tier::Nightly, &row.failure()))?;
    skips::judge()?;
    Ok(failures)
}

/// Runs tests of one executable.
fn tested(executable: &Executable, tier: Tier, tests: &[String]) -> anyhow::Result<Done> {
    let mut command = if executable.package == VIRTUAL { executable.nice() } else { executable.command() };
    skips::told(&mut command).env("OARLOCK_XTASK", target().join("debug/xtask"));
    match tier {
        Tier::Gate => command.env("OARLOCK_SEED_BUDGET", SEED_BUDGET),
        Tier::Nightly => command.env("OARLOCK_WORK_CASES", "all"),
    };
    let (took, ran) = seconds(|| libtest::run(&mut command, tests))?;
    let what = match tests {
        [test] => test.clone(),
        tests => format!("{} tests", tests.len()),
    };
    say(&format!("{took:>6.1} s  {}: {what}", executable.name()));
    if !ran.failed.is_empty() {
        say(&ran.text);
    }
    let failure = |test: &String| Failure {
        executable: executable.name(),
        test: test.clone(),
        bug: None,
        why: libtest::panics(&ran.text).into_iter().filter(|panic| panic.starts_with(&format!("{test}: "))).collect(),
    };
    let failures: Vec<Failure> = ran.failed.iter().map(failure).collect();
    Ok(Done { passed: tests.len() - failures.len(), failures, took: (executable.name(), ran.took) })
}

/// Writes the documentation and tests its examples.
fn documented() -> anyhow::Result<Done> {
    crate::docs::run()?;
    Ok(Done { passed: 0, failures: Vec::new(), took: (String::new(), Vec::new()) })
}

/// Tries one seeded bug.
fn tried(executables: &[Executable], bug: &'static Bug) -> anyhow::Result<Done> {
    let failure = |why: String| Failure {
        executable: bug.package.to_owned(),
        test: bug.title(),
        bug: Some(bug),
        why: why.lines().take(1).map(str::to_owned).collect(),
    };
    let (took, verdict) = seconds(|| bug.is_caught(executables))?;
    let failures: Vec<Failure> = verdict.err().map(failure).into_iter().collect();
    Ok(Done { passed: 1 - failures.len(), failures, took: (SEEDED_BUGS.to_owned(), vec![(bug.title(), took)]) })
}

/// Runs what failed once more; whether it passes now.
fn again(executables: &[Executable], tier: Tier, failure: &Failure) -> anyhow::Result<bool> {
    let done = match failure.bug {
        Some(bug) => tried(executables, bug)?,
        None => {
            let executable = executables.iter().find(|executable| executable.name() == failure.executable);
            tested(
                executable.with_context(|| format!("there is no {}", failure.executable))?,
                tier,
                std::slice::from_ref(&failure.test),
            )?
        }
    };
    Ok(done.failures.is_empty())
}

/// Returns the expected duration, in seconds, of a test of the package without a known duration.
pub(crate) fn usual(package: &str) -> f64 {
    match package {
        INTEGRATION | VIRTUAL => 10.0,
        _ => 0.1,
    }
}

fn durations() -> anyhow::Result<Durations> {
    let path: PathBuf = root().join(DURATIONS);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).context(DURATIONS)
}
