//! Dashboards as Grafana reads them: queries, variables, units, data sources. `cargo xtask dashboards` makes the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::{assert_known, documented, files, promtool, read, recorded};

const FOLDER: &str = "observe/grafana/dashboards";
/// Variables that Grafana has itself.
const BUILT_IN: [&str; 1] = ["__rate_interval"];

fn dashboards() -> BTreeMap<String, Value> {
    let files = files(FOLDER, "json").into_iter();
    let files = files.map(|file| (file.clone(), serde_json::from_str(&read(&file)).unwrap()));
    let files: BTreeMap<String, Value> = files.collect();
    assert_eq!(files.len(), 5);
    files
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Returns all panels but the headings of rows.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
}

/// Returns every query with the title of its panel.
fn queries(dashboard: &Value) -> Vec<(&str, &str)> {
    let targets = |panel: &'_ Value| panel["targets"].as_array().unwrap().len();
    assert!(panels(dashboard).all(|panel| targets(panel) > 0));
    let all = panels(dashboard).flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().iter();
        targets.map(move |target| (text(panel, "title"), text(target, "expr")))
    });
    all.collect()
}

/// Returns the names of the variables in a query.
fn variables(query: &str) -> BTreeSet<&str> {
    let parts = query.split('$').skip(1);
    parts.map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()).collect()
}

/// Returns every query as a store gets it when each variable stands for all its values, with its place.
pub(crate) fn filled_in() -> Vec<(String, String)> {
    let all = dashboards().into_iter().flat_map(|(file, dashboard)| {
        let filled = queries(&dashboard).into_iter().map(|(title, query)| {
            let query = query.replace("$__rate_interval", "5m");
            let query =
                variables(&query).iter().fold(query.clone(), |all, name| all.replace(&format!("${name}"), ".*"));
            (format!("{file}: {title}"), query)
        });
        filled.collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn every_query_is_valid_and_reads_documented_metrics() {
    let (documented, recorded) = (documented(), recorded());
    let mut rules = "groups:\n- name: queries\n  rules:\n".to_owned();
    for (place, query) in filled_in() {
        assert_known(&place, &query, &documented, &recorded);
        let number = rules.lines().count();
        writeln!(rules, "  - {{record: 'query:{number}', expr: '{}'}}", query.replace('\'', "''")).unwrap();
    }
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    promtool(&["check", "rules", "--lint=none", file.path().to_str().unwrap()]);
}

#[test]
fn every_variable_resolves_and_is_used() {
    let (documented, recorded) = (documented(), recorded());
    for (file, dashboard) in dashboards() {
        let list = dashboard["templating"]["list"].as_array().unwrap();
        let defined: BTreeSet<&str> = list.iter().map(|variable| text(variable, "name")).collect();
        for variable in list {
            let query = text(&variable["query"], "query");
            let inside = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')'));
            let (metric, _) = inside.and_then(|inside| inside.split_once(", ")).unwrap();
            assert_known(&file, metric, &documented, &recorded);
        }
        let used: BTreeSet<&str> = queries(&dashboard).into_iter().flat_map(|(_, query)| variables(query)).collect();
        let used: BTreeSet<&str> = used.into_iter().filter(|name| !BUILT_IN.contains(name)).collect();
        assert_eq!(used, defined, "{file}");
    }
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        assert!(uids.insert(text(&dashboard, "uid").to_owned()), "{file}: another dashboard has this uid");
        let mut titles = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = text(panel, "title");
            assert!(titles.insert(title), "{file}: {title} twice");
            assert!(!title.is_empty() && text(panel, "description").ends_with('.'), "{file}: {title}");
            assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty(), "{file}: {title}");
        }
    }
}

#[test]
fn data_sources_and_dashboards_are_provisioned() {
    let sources: serde_norway::Value =
        serde_norway::from_str(&read("observe/grafana/provisioning/datasources/oarlock.yaml")).unwrap();
    let sources = sources["datasources"].as_sequence().unwrap();
    let uids: BTreeSet<&str> = sources.iter().map(|source| source["uid"].as_str().unwrap()).collect();
    let exemplars = &sources[0]["jsonData"]["exemplarTraceIdDestinations"][0];
    assert!(exemplars["name"] == "trace_id" && uids.contains(exemplars["datasourceUid"].as_str().unwrap()));
    let compose = read("compose.yaml");
    let mut with_exemplars = 0;
    for (file, dashboard) in dashboards() {
        assert!(compose.contains(&format!("file: ./{file}\n")), "{file} is not mounted");
        for target in panels(&dashboard).flat_map(|panel| panel["targets"].as_array().unwrap()) {
            assert!(uids.contains(text(&target["datasource"], "uid")), "{file}");
            with_exemplars += usize::from(target["exemplar"] == true);
        }
    }
    assert!(with_exemplars > 0);
}
