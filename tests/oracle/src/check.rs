//! The check: plays every scenario at a server and compares the answers with the recorded ones and the known differences.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use crate::compare::differences;
use crate::known::{Difference, Known};
use crate::play::{play, prepare};
use crate::recorded;
use crate::scenario::{Scenario, load};
use crate::transport::Connection;

/// The result of a check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Answers compared.
    pub cases: usize,
    /// Answers that differ, and where.
    pub different: BTreeMap<String, Vec<String>>,
    /// Listed cases that no longer differ, or no longer are.
    pub stale: Vec<String>,
    /// Different and not listed.
    pub unknown: Vec<String>,
}

impl Findings {
    /// Whether every difference is listed, and every listed case differs.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.stale.is_empty() && self.unknown.is_empty()
    }

    /// Returns one line: `N cases, N equal, N known`.
    #[must_use]
    pub fn counts(&self) -> String {
        let different = self.different.len();
        format!("{} cases, {} equal, {} known", self.cases, self.cases - different, different - self.unknown.len())
    }
}

/// Returns the path of the list of known differences.
#[must_use]
pub fn known_file() -> std::path::PathBuf {
    crate::home().join("known-differences.toml")
}

/// Plays every scenario that begins with `only` and records the answers.
///
/// # Errors
/// When the server does not answer or a file cannot be written.
pub async fn record(kubeconfig: &Path, only: &str) -> anyhow::Result<usize> {
    let connection = Connection::new(kubeconfig)?;
    prepare(&connection).await?;
    let mut cases = 0;
    for scenario in load(&crate::home().join("cases"), only)? {
        let answers = play(&connection, &scenario).await?;
        cases += answers.len();
        recorded::write(&recorded::path(&crate::home().join("recorded"), &scenario.name), &answers)?;
    }
    Ok(cases)
}

/// Plays every scenario that begins with `only` and compares the answers.
///
/// # Errors
/// When the server does not answer, or cases, answers and list cannot be read.
pub async fn check(kubeconfig: &Path, only: &str) -> anyhow::Result<Findings> {
    let connection = Connection::new(kubeconfig)?;
    prepare(&connection).await?;
    let mut findings = Findings::default();
    for scenario in load(&crate::home().join("cases"), only)? {
        one(&connection, &scenario, &mut findings).await?;
    }
    let known = Known::read(&known_file())?;
    let listed = known.by_case();
    let stale = listed.keys().filter(|case| case.starts_with(only) && !findings.different.contains_key(**case));
    findings.stale = stale.map(|case| (*case).to_owned()).collect();
    findings.unknown = findings.different.keys().filter(|case| !listed.contains_key(case.as_str())).cloned().collect();
    Ok(findings)
}

async fn one(connection: &Connection, scenario: &Scenario, findings: &mut Findings) -> anyhow::Result<()> {
    let file = recorded::path(&crate::home().join("recorded"), &scenario.name);
    let recorded = recorded::read(&file)?;
    for (id, now) in play(connection, scenario).await? {
        let case = format!("{}/{id}", scenario.name);
        let then =
            recorded.get(&id).with_context(|| format!("{case} is not recorded: run `cargo xtask oracle record`"))?;
        let differences = differences(then, &now);
        findings.cases += 1;
        if !differences.is_empty() {
            findings.different.insert(case, differences);
        }
    }
    Ok(())
}

/// Takes what is stale off the list; `reason` is given to what is not listed.
///
/// # Errors
/// When the list cannot be read or written.
pub fn update(findings: &Findings, only: &str, reason: Option<&str>) -> anyhow::Result<()> {
    let mut known = Known::read(&known_file())?;
    known.retain(|case| !case.starts_with(only) || findings.different.contains_key(case));
    if let Some(reason) = reason.filter(|_| !findings.unknown.is_empty()) {
        let cases = findings.unknown.iter().cloned().collect();
        known.difference.push(Difference { reason: reason.to_owned(), cases });
    }
    known.write(&known_file())
}
