//! The seeded bugs: each is switched on, and its test must fail. This shows that the suite can detect a violation of each safety rule.
//!
//! A bug is planted behind `seeded_bug!("…")` (`libs/seeded-bug`). Debug builds hold all of them, asleep, so the executables of the ordinary tests serve
//! here too: each test runs with its bug awake, in its own process or in the program that it starts.

mod bugs;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};

use crate::compile::{Executable, compile};
use crate::tests::queue::{self, Task};
use crate::tests::{self, skips};
use crate::tool::{processors, root, rust_files, say, seconds};
pub(crate) use bugs::{Bug, all_bugs};

/// Names the bug that a process of a debug build wakes.
const AWAKE: &str = "OARLOCK_SEEDED_BUG";

/// A test that does not end with its bug is ended after this. Seconds; a world under virtual time may wait for minutes until a processor is free.
const LIMIT: u32 = 1200;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this bug.
    #[arg(long)]
    only: Option<String>,
}

/// Shows that each test passes without its bug and fails with it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    complete()?;
    let bugs: Vec<&Bug> = all_bugs().filter(|bug| args.only.as_deref().is_none_or(|only| only == bug.name)).collect();
    ensure!(!bugs.is_empty(), "no such bug");
    let executables = compile()?;
    let executables = &executables;
    let task = |bug: &'static Bug| {
        let run = move || Ok((bug, bug.passes_asleep(executables)?.and(bug.is_caught(executables)?)));
        Task { seconds: tests::usual(bug.package), real_time: bug.real_time(), run: Box::new(run) }
    };
    let tried = queue::run(bugs.into_iter().map(task).collect(), processors())?;
    let missed: Vec<_> = tried.iter().filter_map(|(bug, verdict)| verdict.is_err().then_some(bug.name)).collect();
    ensure!(missed.is_empty(), "seeded bugs missed: {}", missed.join(", "));
    Ok(())
}

/// Fails when a bug in the sources has no row, or a row no bug.
pub(crate) fn complete() -> anyhow::Result<()> {
    let planted = planted()?;
    let rows: BTreeSet<String> = all_bugs().map(|bug| bug.name.to_owned()).collect();
    ensure!(planted == rows, "planted bugs and rows differ: {:?}", planted.symmetric_difference(&rows));
    Ok(())
}

impl Bug {
    /// Returns the name of the bug's test in reports.
    pub(crate) fn title(&self) -> String {
        format!("{} with the seeded bug {}", self.test, self.name)
    }

    /// Whether its test notices how long it waits for a processor.
    pub(crate) fn real_time(&self) -> bool {
        self.package != tests::VIRTUAL
    }

    /// Whether its own test, and nothing else, fails with it; if not, why. Prints a line.
    ///
    /// # Errors
    /// When there is no such test, or it cannot be run.
    pub(crate) fn is_caught(&self, executables: &[Executable]) -> anyhow::Result<Result<(), String>> {
        let (took, (passed, text)) = seconds(|| self.test(executables, self.name))?;
        let verdict = match failed(&text).as_slice() {
            [own] if own.ends_with(self.test) && !passed => Ok(()),
            [] if passed && self.ran(&text) => Err("its test passes with it".to_owned()),
            [] => Err(format!("its test did not come to an end\n{text}")),
            others => Err(format!("{} failed\n{text}", others.join(", "))),
        };
        let outcome = if verdict.is_ok() { "caught by" } else { "MISSED by" };
        let why = verdict.as_ref().err().map_or(String::new(), |why| format!("\n{why}"));
        say(&format!("{took:>6.1} s  {} {outcome} {}{why}", self.name, self.test));
        Ok(verdict)
    }

    fn passes_asleep(&self, executables: &[Executable]) -> anyhow::Result<Result<(), String>> {
        let (passed, text) = self.test(executables, "")?;
        let passes = passed && failed(&text).is_empty() && self.ran(&text);
        if !passes {
            say(&format!("{} fails without {}\n{text}", self.test, self.name));
        }
        Ok(if passes { Ok(()) } else { Err("its test fails without it".to_owned()) })
    }

    /// Runs its test, with a bug awake or (empty) with none; whether it passed, and what it printed.
    fn test(&self, executables: &[Executable], awake: &str) -> anyhow::Result<(bool, String)> {
        let own = |test: &&Executable| test.package == self.package && test.suite.as_deref() == self.suite;
        let found = executables.iter().find(own);
        let executable = found.with_context(|| format!("no such tests: {} {:?}", self.package, self.suite))?;
        let mut command = executable.bounded(LIMIT, self.real_time());
        skips::told(&mut command).arg(self.test).env(AWAKE, awake);
        executable.capture(&mut command)
    }

    fn ran(&self, text: &str) -> bool {
        let end = format!("{} ... ok", self.test);
        text.lines().any(|line| line.starts_with("test ") && line.ends_with(&end))
    }
}

/// Returns the tests that libtest reports as failed, each once: a test with a process of its own shows that process's output too.
fn failed(text: &str) -> Vec<&str> {
    let failed = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    failed.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The bugs that are planted in the sources.
fn planted() -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in rust_files()?.into_iter().filter(|path| !path.starts_with("xtask")) {
        let text = std::fs::read_to_string(root().join(&path)).with_context(|| path.display().to_string())?;
        names.extend(text.split("seeded_bug!(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    Ok(names)
}
