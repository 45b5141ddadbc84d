//! A safety rule counts only when the suite can fail for it: each planted bug is switched on and its test must turn red.
//!
//! A bug is planted behind `seeded_bug!("…")` (`libs/seeded-bug`). Everything that holds one is built once, with all of them asleep, in a target
//! folder of its own; each test runs with its bug awake. For tests of real processes it is the program that is built so; the test is the
//! ordinary one.

mod bugs;
mod nursery;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, anyhow, ensure};

use crate::tool::{root, rust_files, say, seconds};
use bugs::{BUGS, Bug};
use nursery::Nursery;

/// How many bugs are tried at once.
const LANES: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this bug.
    #[arg(long)]
    only: Option<String>,
    /// Leave out the proof that each test passes without its bug; the ordinary tests give it too.
    #[arg(long)]
    after_tests: bool,
}

impl Args {
    /// Every bug, when all tests have just passed.
    pub(crate) fn after_tests() -> Self {
        Self { only: None, after_tests: true }
    }
}

/// Switches on each bug in turn; fails when one survives, or when anything but its own test fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let planted = planted()?;
    let rows: BTreeSet<String> = BUGS.iter().map(|bug| bug.name.to_owned()).collect();
    ensure!(planted == rows, "planted bugs and rows differ: {:?}", planted.symmetric_difference(&rows));
    let bugs: Vec<&Bug> = BUGS.iter().filter(|bug| args.only.as_deref().is_none_or(|only| only == bug.name)).collect();
    ensure!(!bugs.is_empty(), "no such bug");

    let (took, nursery) = seconds(|| Nursery::build(&bugs))?;
    say(&format!("built in {took:.0} s"));
    if !args.after_tests {
        in_lanes(&bugs, |bug| {
            nursery.passes(bug)?;
            say(&format!("{:<28} passes {}", "no bug", bug.test));
            Ok(())
        })?;
    }
    let table = in_lanes(&bugs, |bug| {
        let (took, verdict) = seconds(|| nursery.verdict(bug))?;
        let outcome = if verdict.is_ok() { "caught by" } else { "MISSED by" };
        let why = verdict.as_ref().err().map_or(String::new(), |why| format!("\n{why}"));
        say(&format!("{:<28} {outcome} {} ({took:.0} s){why}", bug.name, bug.test));
        let row = format!("{:<28} {outcome} {:<70} {:<18} {took:>5.1} s", bug.name, bug.test, bug.package);
        Ok((row, verdict.is_err().then_some(bug.name)))
    })?;
    let (rows, survived): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    say(&format!("\n{}", rows.join("\n")));
    let survived: Vec<&str> = survived.into_iter().flatten().collect();
    ensure!(survived.is_empty(), "seeded bugs missed: {}", survived.join(", "));
    Ok(())
}

/// Does something about every bug, in each lane about one at a time; what came of it is in the bugs' order.
fn in_lanes<T: Send>(bugs: &[&Bug], action: impl Fn(&Bug) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(bug) = bugs.get(place) else { return Ok(done) };
            // No lane begins another one when something cannot be done.
            let outcome = action(bug).inspect_err(|_| next.store(bugs.len(), Ordering::Relaxed))?;
            done.push((place, outcome));
        }
    };
    let lanes: anyhow::Result<Vec<_>> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a lane panicked"))?).collect()
    });
    let mut done: Vec<(usize, T)> = lanes?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
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
