//! What `observe/` holds as data: what Prometheus scrapes, alert rules, and dashboards. Needs promtool (`tests/install-prometheus`).

mod alerts;
pub(crate) mod dashboards;
mod promql;
mod scraping;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_norway::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the files of a folder with this extension, by their paths below the workspace.
fn files(folder: &str, extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    wanted.map(|path| format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap())).collect()
}

/// Runs promtool in the workspace's folder; fails with its output when it does.
fn promtool(words: &[&str]) {
    let output = Command::new("promtool").args(words).current_dir(root()).output();
    let output = output.expect("promtool is missing: run tests/install-prometheus");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{words:?}: {text}");
}

/// A rule of `observe/rules`.
struct Rule {
    /// Name of the alert, or of the recorded series.
    name: String,
    is_alert: bool,
    expression: String,
    labels: Value,
    annotations: Value,
}

fn rules() -> Vec<Rule> {
    let files = files("observe/rules", "yaml");
    let rules = files.iter().flat_map(|file| {
        let file: Value = serde_norway::from_str(&read(file)).unwrap();
        let groups = file["groups"].as_sequence().unwrap().clone();
        groups.into_iter().flat_map(|group| group["rules"].as_sequence().unwrap().clone())
    });
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rule = |rule: Value| Rule {
        name: rule.get("alert").or(rule.get("record")).map(text).unwrap(),
        is_alert: rule.get("alert").is_some(),
        expression: text(&rule["expr"]),
        labels: rule.get("labels").cloned().unwrap_or_default(),
        annotations: rule.get("annotations").cloned().unwrap_or_default(),
    };
    rules.map(rule).collect()
}

/// Returns the metrics in the tables of docs/operations/metrics.md.
fn documented() -> BTreeSet<String> {
    let text = read("docs/operations/metrics.md");
    let cells = text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let names = names.map(|name| name.split('{').next().unwrap_or_default().to_owned());
    names.filter(|name| name.contains('_')).collect()
}

/// Asserts that each metric of an expression is documented, or recorded by a rule.
fn assert_known(place: &str, expression: &str, documented: &BTreeSet<String>, recorded: &BTreeSet<String>) {
    let metrics = promql::metrics(expression);
    assert!(!metrics.is_empty(), "{place}: no metric in {expression}");
    for metric in metrics {
        let mut of_histogram =
            ["_bucket", "_count", "_sum"].into_iter().filter_map(|suffix| metric.strip_suffix(suffix));
        let known = metric == "up"
            || documented.contains(&metric)
            || recorded.contains(&metric)
            || of_histogram.any(|name| documented.contains(name));
        assert!(known, "{place}: {metric} is neither in docs/operations/metrics.md nor recorded");
    }
}

/// Returns the series that rules record.
fn recorded() -> BTreeSet<String> {
    rules().into_iter().filter(|rule| !rule.is_alert).map(|rule| rule.name).collect()
}
