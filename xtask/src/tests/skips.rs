//! Finds tests that report a skip on this machine (`oarlock_testkit::skipped!`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::tool::{root, say, target};

/// Tests that may be left out, and why.
const EXPECTED: &str = "tests/expected-skips.toml";

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    /// The test's name, or the first part of the names of several.
    test: String,
    reason: String,
}

fn file() -> PathBuf {
    target().join("skipped")
}

/// Removes the records of tests that earlier runs have skipped.
pub(super) fn reset() -> anyhow::Result<()> {
    fs::write(file(), "").with_context(|| file().display().to_string())
}

/// Sets the file to which a test executable writes the tests that it skips.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    command.env("OARLOCK_SKIPPED", file())
}

/// Prints the skipped tests; returns their number.
///
/// # Errors
/// When a test was skipped that [`EXPECTED`] does not name.
pub(super) fn judge() -> anyhow::Result<usize> {
    let text = fs::read_to_string(root().join(EXPECTED)).context(EXPECTED)?;
    let expected = toml::from_str::<Expected>(&text).context(EXPECTED)?.skip;
    let left_out = fs::read_to_string(file())?;
    let mut unexpected = Vec::new();
    for line in left_out.lines() {
        match expected.iter().find(|skip| line.starts_with(&skip.test)) {
            Some(skip) => say(&format!("left out: {line}\n    expected: {}", skip.reason)),
            None => unexpected.push(line),
        }
    }
    ensure!(unexpected.is_empty(), "tests were left out that {EXPECTED} does not name:\n  {}", unexpected.join("\n  "));
    Ok(left_out.lines().count())
}
