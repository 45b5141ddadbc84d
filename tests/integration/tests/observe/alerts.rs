//! Alert rules: promtool runs them over faults and over hours without one (`observe/rules/tests`), and each has a section in the run book.

use std::collections::BTreeSet;

use super::{assert_known, documented, files, promql, promtool, read, recorded, rules};

const RUN_BOOK: &str = "docs/operations/alerts.md";
/// Hours without a fault.
const QUIET: [&str; 2] = ["observe/rules/tests/busy.yaml", "observe/rules/tests/calm.yaml"];

#[test]
fn each_alert_fires_for_its_fault_and_none_without_one() {
    for file in files("observe/rules", "yaml") {
        promtool(&["check", "rules", "--lint=all", "--lint-fatal", &file]);
    }
    for file in files("observe/rules/tests", "yaml") {
        promtool(&["test", "rules", &file]);
    }
    // Every alert is expected somewhere.
    let faults = read("observe/rules/tests/faults.yaml");
    for rule in rules().iter().filter(|rule| rule.is_alert) {
        assert!(faults.contains(&format!("alertname=\"{}\"", rule.name)), "{}: no fault is tested", rule.name);
        let window = rule.labels.get("window").and_then(serde_norway::Value::as_str);
        if let Some(window) = window {
            let labels = |line: &&str| line.contains(&rule.name) && line.contains(&format!("window=\"{window}\""));
            assert!(faults.lines().any(|line| labels(&line)), "{} of {window}: no fault is tested", rule.name);
        }
    }
}

/// An alert is silent for want of its series too.
#[test]
fn hours_without_a_fault_have_every_series_that_alerts_read() {
    let recorded = recorded();
    for file in QUIET {
        let text = read(file);
        for rule in rules() {
            for metric in promql::metrics(&rule.expression).difference(&recorded) {
                let given = text.contains(&format!("series: '{metric}{{"));
                assert!(given, "{file} lacks {metric} of {}", rule.name);
            }
        }
    }
}

#[test]
fn each_alert_has_a_severity_and_a_section_in_the_run_book() {
    let text = read(RUN_BOOK);
    let sections: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("## Oarlock")).collect();
    let manifest = read("Cargo.toml");
    let repository = manifest.lines().find_map(|line| line.strip_prefix("repository = ")).unwrap().trim_matches('"');
    let mut named = BTreeSet::new();
    for rule in rules().into_iter().filter(|rule| rule.is_alert) {
        let url = format!("{repository}/blob/main/{RUN_BOOK}#{}", rule.name.to_lowercase());
        assert_eq!(rule.annotations["runbook_url"].as_str(), Some(url.as_str()), "{}", rule.name);
        assert!(rule.annotations["summary"].as_str().is_some_and(|text| !text.is_empty()), "{}", rule.name);
        assert!(matches!(rule.labels["severity"].as_str(), Some("critical" | "warning")), "{}", rule.name);
        named.insert(rule.name.strip_prefix("Oarlock").unwrap().to_owned());
    }
    assert_eq!(sections, named.iter().map(String::as_str).collect::<BTreeSet<&str>>());
}

#[test]
fn rules_read_documented_metrics() {
    let (documented, recorded) = (documented(), recorded());
    for rule in rules() {
        assert_known(&rule.name, &rule.expression, &documented, &recorded);
    }
}
