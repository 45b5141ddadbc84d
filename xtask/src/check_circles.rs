//! Files of a crate import one another in one direction: no file imports a file that imports it back, directly or by way of others. A file and the files
//! below its folder are one thing and may.
//!
//! A list of rows (`table.rs`) imports every row, so only what starts the rows imports the list: its parent, or `start.rs`. What rows have in common is in
//! files of its own.

mod graph;
mod imports;
mod modules;
mod parse;
#[cfg(test)]
mod tests;
mod tokens;

use anyhow::{Context, bail};
use cargo_metadata::{MetadataCommand, Target};

use crate::tool::{root, say};
use graph::{Graph, Import};
use modules::Modules;

/// Advice on how to open a circle, for the person who has closed one.
const ADVICE: &str = "A reader cannot tell which of these files to read first. Move what both need to a file of its own, which imports neither \
                      (as `harness/row.rs` holds what rows and their list need), or hand it over as an argument.";
const TABLE_ADVICE: &str = "A table.rs imports every row that it lists, so whoever imports it imports them all. Only its parent and start.rs may; move what \
                            you need from it to a file of its own.";
/// Circles of a crate that are shown: one import can close many, and the shortest say most.
const SHOWN: usize = 5;

/// Checks every crate and fails with all findings.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut crates = Vec::new();
    for package in &MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?.packages {
        let mut graph = Graph::default();
        for target in package.targets.iter().filter(|target| is_product(target)) {
            let root_file = target.src_path.as_std_path();
            let folder = root_file.parent().context("a target without a folder")?;
            let name = target.src_path.file_name().unwrap_or_default();
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
            let modules = Modules::load(name, &read).with_context(|| format!("{}: {}", package.name, target.name))?;
            graph.add(&modules);
        }
        crates.push((package.name.to_string(), graph));
    }
    let findings = findings(&crates);
    if !findings.is_empty() {
        bail!("circles:\n{}", findings.join("\n"));
    }
    say(&format!("circles: none in {} crates", crates.len()));
    Ok(())
}

/// Libraries and programs; no tests, examples or build scripts.
fn is_product(target: &Target) -> bool {
    target.is_lib() || target.is_bin() || target.is_proc_macro()
}

/// Returns the circles, and the imports of tables by files that do not start what is listed.
fn findings(crates: &[(String, Graph)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, graph) in crates {
        let circles = circles(graph);
        findings.extend(circles.iter().take(SHOWN).map(|circle| format!("{name}: {}", show(circle))));
        let more = circles.len().saturating_sub(SHOWN);
        if more > 0 {
            findings.push(format!("{name}: {more} more circles, which may be gone with the first"));
        }
    }
    if !findings.is_empty() {
        findings.push(ADVICE.to_owned());
    }
    let mut tables = Vec::new();
    for (name, graph) in crates {
        for import in graph.table_imports() {
            tables.push(format!("{name}: {}:{} imports {}", import.from, import.line, import.to));
        }
    }
    if !tables.is_empty() {
        tables.push(TABLE_ADVICE.to_owned());
    }
    findings.append(&mut tables);
    findings
}

/// Returns the circles of a crate, each once, the shortest first.
fn circles(graph: &Graph) -> Vec<Vec<Import>> {
    let mut circles: Vec<Vec<Import>> = Vec::new();
    for import in graph.in_circles() {
        let circle = graph.circle_of(&import);
        let same = |known: &Vec<Import>| known.len() == circle.len() && known.iter().all(|one| circle.contains(one));
        if !circles.iter().any(same) {
            circles.push(circle);
        }
    }
    circles.sort_by_key(Vec::len);
    circles
}

/// A circle, one import a line.
fn show(circle: &[Import]) -> String {
    let what = if circle.len() == 2 { "two files import each other" } else { "files import one another in a circle" };
    let lines = circle.iter().map(|import| format!("\n    {}:{} imports {}", import.from, import.line, import.to));
    std::iter::once(what.to_owned()).chain(lines).collect()
}
