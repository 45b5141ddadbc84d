//! The results of specs, from ginkgo's report.

use std::collections::BTreeMap;

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// Longest reason that is kept, in characters.
const REASON: usize = 400;

/// The result of a spec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) state: State,
    pub(crate) seconds: f64,
    /// The reason of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// File and line of the suite at which the spec failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) at: String,
    /// The reason of the first failure, where the second run passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_try: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Passed,
    Failed,
    /// The spec itself found that it cannot run here.
    Skipped,
}

impl Outcome {
    pub(crate) fn passed(&self) -> bool {
        self.state == State::Passed
    }

    /// The outcome of a second run, which remembers the first.
    pub(crate) fn after(self, first: &Self) -> Self {
        Self { first_try: Some(first.reason.clone()), ..self }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    spec_reports: Option<Vec<Node>>,
}

/// A spec, or what runs before or after all specs.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    /// Nanoseconds.
    run_time: u64,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    location: Option<Location>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    line_number: u32,
}

/// Reads a report: the specs that were chosen, by name.
///
/// # Errors
/// When the text is no report, or something before the specs failed, so that none was run.
pub(crate) fn outcomes(report: &str) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let suites: Vec<Report> = serde_json::from_str(report)?;
    let mut all = BTreeMap::new();
    for node in suites.into_iter().filter_map(|suite| suite.spec_reports).flatten() {
        let failure = node.failure.unwrap_or(Failure { message: String::new(), location: None });
        let reason = short(&failure.message);
        if node.leaf_node_type != "It" {
            // When no spec was chosen, the suite's first node does not run.
            if node.leaf_node_type.contains("BeforeSuite") && !["passed", "skipped"].contains(&node.state.as_str()) {
                bail!("the suite did not begin: {reason}");
            }
            continue;
        }
        let state = match node.state.as_str() {
            "passed" => State::Passed,
            // Specs that were not chosen have no reason.
            "skipped" | "pending" if reason.is_empty() => continue,
            "skipped" | "pending" => State::Skipped,
            _ => State::Failed,
        };
        let mut texts = node.container_hierarchy_texts.unwrap_or_default();
        texts.push(node.leaf_node_text);
        let reason = if state == State::Failed && reason.is_empty() { node.state } else { reason };
        let at = failure.location.filter(|_| state != State::Passed).map_or_else(String::new, |at| at.short());
        let seconds = (node.run_time as f64 / 1e8).round() / 10.0;
        all.insert(texts.join(" "), Outcome { state, seconds, reason, at, first_try: None });
    }
    Ok(all)
}

/// A message in one line, cut.
fn short(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(REASON).collect()
}

impl Location {
    /// The file from the suite's folder on.
    fn short(&self) -> String {
        let file = self.file_name.rsplit_once("test/e2e/").map_or(self.file_name.as_str(), |(_, file)| file);
        if file.is_empty() { String::new() } else { format!("{file}:{}", self.line_number) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Outcome, State, outcomes};

    fn node(kind: &str, text: &str, state: &str, message: &str) -> Value {
        json!({
            "ContainerHierarchyTexts": ["[sig-x] Things"], "LeafNodeType": kind, "LeafNodeText": text, "State": state, "RunTime": 1_260_000_000,
            "Failure": {"Message": message, "Location": {"FileName": "/m/k8s.io/kubernetes@v1/test/e2e/x/y.go", "LineNumber": 7}},
        })
    }

    #[test]
    fn a_report_says_what_came_of_the_chosen_specs() {
        let report = json!([{"SpecReports": [
            node("SynchronizedBeforeSuite", "", "passed", ""),
            node("It", "works", "passed", ""),
            node("It", "fails", "failed", "it was\n  not so"),
            node("It", "ends the process", "panicked", ""),
            node("It", "cannot run here", "skipped", "needs three nodes"),
            node("It", "was not chosen", "skipped", ""),
        ]}, {"SpecReports": null}]);
        let seen = outcomes(&report.to_string()).unwrap();
        let shown: Vec<_> =
            seen.iter().map(|(name, o)| (name.as_str(), o.state, o.reason.as_str(), o.at.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("[sig-x] Things cannot run here", State::Skipped, "needs three nodes", "x/y.go:7"),
                ("[sig-x] Things ends the process", State::Failed, "panicked", "x/y.go:7"),
                ("[sig-x] Things fails", State::Failed, "it was not so", "x/y.go:7"),
                ("[sig-x] Things works", State::Passed, "", ""),
            ]
        );
        assert_eq!(seen["[sig-x] Things works"].seconds, 1.3);
    }

    #[test]
    fn a_suite_that_did_not_begin_is_no_run() {
        let report = json!([{"SpecReports": [
            node("SynchronizedBeforeSuite", "", "failed", "no nodes"), node("It", "works", "skipped", ""),
        ]}]);
        assert!(outcomes(&report.to_string()).unwrap_err().to_string().contains("no nodes"));
        assert!(outcomes("{}").is_err());
    }

    #[test]
    fn a_second_try_remembers_the_first() {
        let outcome = |state, reason: &str| Outcome {
            state,
            seconds: 1.0,
            reason: reason.to_owned(),
            at: String::new(),
            first_try: None,
        };
        let second = outcome(State::Passed, "").after(&outcome(State::Failed, "late"));
        assert!(second.passed() && second.first_try.as_deref() == Some("late"));
    }
}
