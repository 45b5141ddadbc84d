//! The chart's README.md against values.yaml: a row for each value, with its default.

use std::collections::BTreeMap;

use serde_json::Value;

use super::helm::repository;

/// Objects that are one value to their reader.
const WHOLE: [&str; 4] = ["resources", "limits", "requests", "labels"];

/// Returns the default of each value by its path.
fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value.as_object() {
        Some(fields) if !fields.is_empty() && !WHOLE.contains(&at.rsplit('.').next().unwrap()) => {
            for (name, field) in fields {
                leaves(format!("{at}.{name}").trim_start_matches('.'), field, found);
            }
        }
        _ => {
            found.insert(at.to_owned(), value.clone());
        }
    }
}

#[test]
fn every_value_is_explained_with_its_default() {
    let values = std::fs::read_to_string(repository("helm/oarlock/values.yaml")).unwrap();
    let mut known = BTreeMap::new();
    leaves("", &serde_norway::from_str(&values).unwrap(), &mut known);
    let readme = std::fs::read_to_string(repository("helm/oarlock/README.md")).unwrap();
    let (_, table) = readme.split_once("\n## Values\n").unwrap();
    let mut said = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [path, default, what] = cells[..] else { panic!("{line}") };
        assert!(what.len() > 5, "{line}");
        let before =
            said.insert(path.trim_matches('`').to_owned(), serde_json::from_str(default.trim_matches('`')).unwrap());
        assert!(before.is_none(), "{line}");
    }
    assert!(known.len() > 60, "{}", known.len());
    assert_eq!(said, known);
}
