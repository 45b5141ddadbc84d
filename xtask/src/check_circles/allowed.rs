//! The circles that are still allowed: `xtask/circles.toml`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::graph::{Graph, Import};
use crate::tool::root;

const FILE: &str = "xtask/circles.toml";
const HEADER: &str = "\
# Circles that were there before `cargo xtask check-circles` and are still to be opened: by crate, each file with the files that it imports and that lead
# back to it. An import that is not here fails the check, and so does an entry that is not needed any more.
#
# `tables`: by crate, each list of rows with the files that import it and do not start what it lists.

";

/// By crate, the imports of each file.
type Files = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The circles that are still allowed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowed {
    /// Each file with the imported files that lead back to it.
    #[serde(default)]
    circles: Files,
    /// Each table with the files that import it.
    #[serde(default)]
    tables: Files,
}

impl Allowed {
    /// Reads the list.
    ///
    /// # Errors
    /// When the file cannot be read or is no such list.
    pub(super) fn read() -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root().join(FILE)).context(FILE)?;
        toml::from_str(&text).context(FILE)
    }

    /// Writes the list.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let text = toml::to_string_pretty(self).context(FILE)?;
        std::fs::write(root().join(FILE), format!("{HEADER}{text}")).context(FILE)
    }

    /// Adds what a crate has.
    pub(super) fn add(&mut self, name: &str, graph: &Graph) {
        for import in graph.in_circles() {
            entry(&mut self.circles, name, import.from, import.to);
        }
        for import in graph.table_imports() {
            entry(&mut self.tables, name, import.to, import.from);
        }
    }

    /// Whether an import may be part of a circle.
    pub(super) fn circle(&self, name: &str, import: &Import) -> bool {
        has(&self.circles, name, &import.from, &import.to)
    }

    /// Whether a file may import a table.
    pub(super) fn table(&self, name: &str, import: &Import) -> bool {
        has(&self.tables, name, &import.to, &import.from)
    }

    /// Returns the number of listed imports.
    pub(super) fn count(&self) -> usize {
        all(&self.circles).chain(all(&self.tables)).count()
    }

    /// The entries that `found` does not have, one a line.
    pub(super) fn without(&self, found: &Self) -> Vec<String> {
        let circles = all(&self.circles)
            .filter(|(name, from, to)| !has(&found.circles, name, from, to))
            .map(|(name, from, to)| format!("{name}: the import of {to} by {from} is listed and is in no circle"));
        let tables = all(&self.tables)
            .filter(|(name, table, by)| !has(&found.tables, name, table, by))
            .map(|(name, table, by)| format!("{name}: the import of {table} by {by} is listed and is not there"));
        circles.chain(tables).collect()
    }
}

fn entry(files: &mut Files, name: &str, key: String, value: String) {
    files.entry(name.to_owned()).or_default().entry(key).or_default().insert(value);
}

fn has(files: &Files, name: &str, key: &str, value: &str) -> bool {
    files.get(name).and_then(|files| files.get(key)).is_some_and(|values| values.contains(value))
}

fn all(files: &Files) -> impl Iterator<Item = (&str, &str, &str)> {
    files.iter().flat_map(|(name, files)| {
        files.iter().flat_map(move |(key, values)| {
            values.iter().map(move |value| (name.as_str(), key.as_str(), value.as_str()))
        })
    })
}
