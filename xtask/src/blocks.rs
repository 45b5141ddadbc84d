//! Tables of blocks of rows, in which a run replaces its own blocks and keeps the others.

use std::collections::BTreeMap;

/// How the first row of a block begins; the block's name and `**` follow.
pub(crate) const BEGINS: &str = "| **";

/// The blocks that are `known`, each replaced by what was `seen` under its name, in the order of their names.
pub(crate) fn merged(known: &str, seen: BTreeMap<String, String>) -> String {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut block = None;
    for line in known.lines() {
        if let Some(begins) = line.strip_prefix(BEGINS) {
            block = begins.split_once("**").map(|(name, _)| name.to_owned());
        }
        if let Some(name) = &block {
            *all.entry(name.clone()).or_default() += &format!("{line}\n");
        }
    }
    all.extend(seen);
    all.into_values().collect()
}
