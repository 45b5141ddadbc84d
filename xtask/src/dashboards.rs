//! `cargo xtask dashboards`: writes dashboards in the formats of Grafana and of VictoriaMetrics' vmui from `observe/dashboards/*.toml`.

mod grafana;
mod vmui;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::tool::{root, say};

/// Folder of the sources.
const SOURCES: &str = "observe/dashboards";
/// Width of a dashboard in units of Grafana's grid.
const FULL_WIDTH: u32 = 24;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when a file differs from what would be written.
    #[arg(long)]
    check: bool,
}

/// A dashboard: rows of panels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dashboard {
    title: String,
    /// What the dashboard shows, in a sentence.
    about: String,
    #[serde(default)]
    variables: Vec<Variable>,
    rows: Vec<Row>,
}

/// A choice of label values, which queries use as `$name`. Without a choice all values count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    /// Grafana's query for the values: `label_values(METRIC, LABEL)`.
    query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    title: String,
    panels: Vec<Panel>,
}

/// A graph over time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    title: String,
    /// What the graph shows, and what a reader concludes from it.
    about: String,
    unit: Unit,
    /// Width in units of Grafana's grid.
    #[serde(default = "third")]
    width: u32,
    /// Whether the lines are added up.
    #[serde(default)]
    stacked: bool,
    /// Whether traces of single observations are shown as points.
    #[serde(default)]
    exemplars: bool,
    /// Each query in PromQL with the legend of its lines.
    queries: Vec<(String, String)>,
}

/// Unit of a graph's values.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Seconds,
    Bytes,
    BytesRate,
    Requests,
    Rate,
    Share,
    Count,
}

fn third() -> u32 {
    FULL_WIDTH / 3
}

/// Writes all files, or compares them.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let files = files()?;
    if args.check {
        return compare(&files);
    }
    for (path, text) in &files {
        let path = root().join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    say(&format!("dashboards: {} files written", files.len()));
    Ok(())
}

/// Fails when a file differs from what its source says.
pub(crate) fn check() -> anyhow::Result<()> {
    compare(&files()?)
}

fn compare(files: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for (path, text) in files {
        let found = fs::read_to_string(root().join(path)).unwrap_or_default();
        ensure!(found == *text, "{}: differs from its source; run cargo xtask dashboards", path.display());
    }
    say(&format!("dashboards: {} files agree with their sources", files.len()));
    Ok(())
}

/// Returns the text of each file by its path below the workspace.
fn files() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root().join(SOURCES)).context(SOURCES)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        let dashboard: Dashboard = toml::from_str(&text).with_context(|| path.display().to_string())?;
        dashboard.check().with_context(|| path.display().to_string())?;
        let file = format!("{stem}.json");
        files.insert(Path::new("observe/grafana/dashboards").join(&file), grafana::text(&dashboard, &stem));
        files.insert(Path::new("observe/vmui").join(&file), vmui::text(&dashboard, &file));
    }
    ensure!(!files.is_empty(), "{SOURCES}: no dashboards");
    Ok(files)
}

impl Dashboard {
    /// Fails for a text that is missing and for a width that the grid does not have.
    fn check(&self) -> anyhow::Result<()> {
        let texts = [&self.title, &self.about].into_iter().chain(self.rows.iter().map(|row| &row.title));
        let panels = || self.rows.iter().flat_map(|row| &row.panels);
        let texts = texts.chain(panels().flat_map(|panel| [&panel.title, &panel.about]));
        ensure!(texts.into_iter().all(|text| !text.trim().is_empty()), "a title or a description is empty");
        for panel in panels() {
            ensure!((1..=FULL_WIDTH).contains(&panel.width), "{}: width {}", panel.title, panel.width);
            ensure!(!panel.queries.is_empty(), "{}: no query", panel.title);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
