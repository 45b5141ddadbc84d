//! The table of docs/conformance.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::Context;

use super::golden::Golden;
use super::outcome::{Outcome, State};
use crate::blocks::{BEGINS, merged};
use crate::tool::{output, processors, root, say};

const PAGE: &str = "docs/conformance.md";
/// The line after which `cargo xtask conformance` writes the table.
const MARK: &str = "<!-- cargo xtask conformance writes what follows -->";
const HEAD: &str = "| specs, commit, where, time; group | specs | passed | known reason | failed | left out |\n|---|---:|---:|---:|---:|---:|\n";

/// The rows that a run adds to the table.
pub(crate) struct Block<'a> {
    pub(crate) title: String,
    pub(crate) outcomes: &'a BTreeMap<String, Outcome>,
    pub(crate) golden: &'a Golden,
    pub(crate) minutes: &'a [(&'static str, f64)],
}

/// Puts a run's rows into the table, in the place of those of the same title.
pub(crate) fn write(block: &Block<'_>) -> anyhow::Result<()> {
    let commit = output(Command::new("git").args(["describe", "--always", "--dirty"]))?;
    let page = root().join(PAGE);
    let text = std::fs::read_to_string(&page).context(PAGE)?;
    let (before, known) = text.split_once(MARK).context("docs/conformance.md has lost its mark")?;
    let rows = rows(block, commit.trim(), processors());
    let merged = merged(known, BTreeMap::from([(block.title.clone(), rows)]));
    std::fs::write(&page, format!("{before}{MARK}\n\n{HEAD}{merged}"))?;
    say(&format!("{PAGE} is written"));
    Ok(())
}

#[derive(Default)]
struct Count {
    passed: usize,
    known: usize,
    failed: usize,
    left_out: usize,
}

impl Count {
    fn add(&mut self, state: State, is_known: bool) {
        match state {
            State::Passed => self.passed += 1,
            State::Skipped => self.left_out += 1,
            State::Failed if is_known => self.known += 1,
            State::Failed => self.failed += 1,
        }
    }

    fn row(&self) -> String {
        let Self { passed, known, failed, left_out } = self;
        format!("{} | {passed} | {known} | {failed} | {left_out}", passed + known + failed + left_out)
    }
}

/// A row for the run, and one for each group: what a name begins with in brackets.
fn rows(block: &Block<'_>, commit: &str, cores: usize) -> String {
    let mut groups: BTreeMap<&str, Count> = BTreeMap::new();
    let mut all = Count::default();
    for (name, outcome) in block.outcomes {
        let group = name.strip_prefix('[').and_then(|name| name.split_once(']')).map_or("others", |(group, _)| group);
        let is_known = block.golden.feature(name).is_some();
        groups.entry(group).or_default().add(outcome.state, is_known);
        all.add(outcome.state, is_known);
    }
    let minutes: Vec<String> = block.minutes.iter().map(|(part, minutes)| format!("{part} {minutes:.0} min")).collect();
    let mut text =
        format!("{BEGINS}{}**, {commit}, {cores} cores, {} | {} |\n", block.title, minutes.join(", "), all.row());
    for (group, count) in groups {
        let _a_string_takes_all = writeln!(text, "| {group} | {} |", count.row());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Count, State};

    #[test]
    fn every_spec_is_counted_once() {
        let mut count = Count::default();
        for (state, is_known) in [
            (State::Passed, true),
            (State::Passed, false),
            (State::Failed, true),
            (State::Failed, false),
            (State::Skipped, true),
        ] {
            count.add(state, is_known);
        }
        assert_eq!(count.row(), "5 | 2 | 1 | 1 | 1");
    }
}
