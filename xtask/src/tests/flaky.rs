//! Reruns failed tests alone; a test that passes then counts as flaky.
//!
//! A run does not end red for such a test. It is named in `tests/flaky.toml` from then on: nightly repeats it fifty times, and no issue is resolved while a
//! test that the issue touched is listed.

use std::fs;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::seeded_bugs::{Bug, all_bugs};
use crate::tool::{output, root, say};

/// The list.
const LIST: &str = "tests/flaky.toml";
/// The number of reruns in a row that must pass.
const RERUNS: usize = 2;
/// Number of tests that failed again after which no further test is repeated: the failures have a common cause.
const ENOUGH: usize = 3;

/// A test, or a seeded bug's test, that did not do what it should.
pub(super) struct Failure {
    pub(super) executable: String,
    pub(super) test: String,
    pub(super) bug: Option<&'static Bug>,
    /// The begin of its messages.
    pub(super) why: Vec<String>,
}

/// The numbers of flaky failures and of real failures.
pub(super) struct Flaky {
    pub(super) flaky: usize,
    pub(super) red: usize,
}

#[derive(Default, Deserialize, Serialize)]
struct List {
    #[serde(default)]
    test: Vec<Row>,
}

/// A flaky test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The executable, as `oarlock-store --test all`.
    pub(crate) executable: String,
    pub(crate) name: String,
    /// The day on which it was first seen to be flaky.
    date: String,
    /// The suspected cause; at first the test's message.
    suspicion: String,
}

/// Returns the tests that are known to be flaky.
///
/// # Errors
/// When the list cannot be read.
pub(crate) fn listed() -> anyhow::Result<Vec<Row>> {
    let path = root().join(LIST);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(toml::from_str::<List>(&text).context(LIST)?.test)
}

impl Row {
    /// The failure that put it on the list.
    pub(super) fn failure(&self) -> Failure {
        let bug = all_bugs().find(|bug| bug.title() == self.name);
        Failure { executable: self.executable.clone(), test: self.name.clone(), bug, why: Vec::new() }
    }
}

/// Returns in how many of `times` runs a test failed.
pub(super) fn count(times: usize, mut passes: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<usize> {
    let mut failures = 0;
    for _ in 0..times {
        failures += usize::from(!passes()?);
    }
    Ok(failures)
}

/// Runs each failure again, while nothing else runs; prints what stays red and what is flaky, and puts the latter on the list.
pub(super) fn judge(
    failures: Vec<Failure>,
    mut passes: impl FnMut(&Failure) -> anyhow::Result<bool>,
) -> anyhow::Result<Flaky> {
    let (mut flaky, mut red) = (Vec::new(), Vec::new());
    for failure in failures {
        let mut again = || -> anyhow::Result<bool> {
            for _ in 0..RERUNS {
                if !passes(&failure)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if red.len() < ENOUGH && again()? { flaky.push(failure) } else { red.push(failure) }
    }
    for failure in &red {
        say(&format!("RED {} in {}\n  {}", failure.test, failure.executable, failure.why.join("\n  ")));
    }
    for failure in &flaky {
        say(&format!("FLAKY {} in {}\n  {}", failure.test, failure.executable, failure.why.join("\n  ")));
    }
    if !flaky.is_empty() {
        let date = output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        let mut list = List { test: listed()? };
        list.add(&flaky, date.trim());
        let head = fs::read_to_string(root().join(LIST))?;
        let head: String =
            head.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        fs::write(root().join(LIST), format!("{head}\n{}", toml::to_string(&list)?))?;
        say(&format!("{LIST} names them now: commit it"));
    }
    Ok(Flaky { flaky: flaky.len(), red: red.len() })
}

impl List {
    /// Adds a row for each that has none.
    fn add(&mut self, flaky: &[Failure], date: &str) {
        for failure in flaky {
            let known = |row: &Row| row.executable == failure.executable && row.name == failure.test;
            if !self.test.iter().any(known) {
                let suspicion = failure.why.first().map_or_else(String::new, |why| why.replace('\n', " "));
                let (executable, name) = (failure.executable.clone(), failure.test.clone());
                self.test.push(Row { executable, name, date: date.to_owned(), suspicion });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, List, count};
    use crate::seeded_bugs::all_bugs;

    #[test]
    fn a_flaky_test_is_listed_once() {
        let failure = |test: &str| Failure {
            executable: "e".to_owned(),
            test: test.to_owned(),
            bug: None,
            why: vec!["a: src/a.rs:1:2:\n    not".to_owned()],
        };
        let mut list = List::default();
        list.add(&[failure("a"), failure("b")], "2026-11-25");
        list.add(&[failure("b")], "2026-11-26");
        let rows: Vec<_> = list.test.iter().map(|row| (row.name.as_str(), row.date.as_str())).collect();
        assert_eq!(rows, [("a", "2026-11-25"), ("b", "2026-11-25")]);
        let text = toml::to_string(&list).unwrap();
        assert_eq!(toml::from_str::<List>(&text).unwrap().test, list.test);
        assert!(toml::from_str::<List>("").unwrap().test.is_empty());
    }

    #[test]
    fn a_listed_test_is_repeated_and_every_failure_counts() {
        let mut runs = 0;
        let failures = count(50, || {
            runs += 1;
            Ok(runs % 25 != 0)
        });
        assert_eq!((failures.unwrap(), runs), (2, 50));
        assert!(count(2, || anyhow::bail!("it cannot be run")).is_err());
    }

    #[test]
    fn a_row_is_of_a_test_or_of_a_seeded_bug() {
        let bug = all_bugs().next().unwrap();
        let failure = |name: &str| Failure {
            executable: bug.package.to_owned(),
            test: name.to_owned(),
            bug: None,
            why: Vec::new(),
        };
        let mut list = List::default();
        list.add(&[failure(&bug.title()), failure("store::a_test")], "2026-11-26");
        let bugs: Vec<_> = list.test.iter().map(|row| row.failure().bug.map(|bug| bug.name)).collect();
        assert_eq!(bugs, [Some(bug.name), None]);
    }
}
