//! The list of tests that only nightly runs, because they take too long for the gate.

use std::fs;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::seeded_bugs::{Bug, all_bugs};
use crate::tool::root;

/// The list.
const LIST: &str = "tests/nightly.toml";

#[derive(Deserialize)]
struct List {
    test: Vec<Row>,
}

/// Tests that left the gate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    package: String,
    /// The test's name, or the first part of the names of several.
    name: String,
    /// What the tests show that the gate does not.
    #[serde(rename = "shows")]
    _shows: String,
    /// Seeded bugs of the kind that they would find, which the gate still catches.
    bugs: Vec<String>,
}

impl Row {
    /// Whether the row names this test.
    pub(super) fn holds(&self, package: &str, test: &str) -> bool {
        self.package == package && test.starts_with(&self.name)
    }
}

/// Reads the list.
///
/// # Errors
/// When it cannot be read, and when a row names no seeded bug that the gate catches: what leaves the gate leaves one.
pub(super) fn listed() -> anyhow::Result<Vec<Row>> {
    read(&fs::read_to_string(root().join(LIST)).context(LIST)?)
}

fn read(text: &str) -> anyhow::Result<Vec<Row>> {
    let rows = toml::from_str::<List>(text).context(LIST)?.test;
    for row in &rows {
        ensure!(!row.bugs.is_empty(), "{LIST}: {} names no seeded bug that the gate catches in its place", row.name);
        for name in &row.bugs {
            let in_gate = |bug: &Bug| bug.name == name && !rows.iter().any(|row| row.holds(bug.package, bug.test));
            ensure!(all_bugs().any(in_gate), "{LIST}: {}: the gate catches no seeded bug {name}", row.name);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_leaves_the_gate_names_a_seeded_bug_that_the_gate_catches() {
        let row = |name: &str, bugs: &str| {
            format!("[[test]]\npackage = \"oarlock-store\"\nname = \"{name}\"\nshows = \"it\"\nbugs = [{bugs}]\n")
        };
        let rows = read(&row("slow::", "\"read_undurable\"")).unwrap();
        assert!(rows.iter().all(|row| row.holds("oarlock-store", "slow::a") && !row.holds("oarlock-store", "fast::a")));
        assert!(read(&row("slow::", "")).is_err());
        assert!(read(&row("slow::", "\"no_such_bug\"")).is_err());
        // The one test that catches it has left too.
        let caught_later = row("nobody_sees_a_write_before_it_is_durable", "\"read_undurable\"");
        assert!(read(&caught_later).is_err());
    }
}
