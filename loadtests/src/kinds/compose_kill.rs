//! Measures what the loss of each container of compose.yaml costs users. The scene is that of the test
//! `tests/integration/tests/faults/compose.rs`, which also judges the history of its clients.

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::report::{Better, Figure};

/// The test.
const SCENE: &str = "faults::compose::every_container_is_killed_and_nothing_is_lost";

/// Nothing can be chosen: everything is killed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {}

/// What the test says of one fault.
#[derive(Deserialize)]
struct Row {
    fault: Option<String>,
    /// The longest time without an answer to a write, to a read, and from the kill until a Deployment had its new size; milliseconds.
    writes: Option<f64>,
    reads: Option<f64>,
    work: Option<f64>,
}

/// Measures.
pub(crate) async fn run(_: &Spec) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let rows = folder.path().join("rows.jsonl");
    let mut test = tokio::process::Command::from(oarlock_testkit::cargo());
    test.args(["test", "-p", "oarlock-tests-integration", "--", "--exact", SCENE, "--nocapture"]).kill_on_drop(true);
    // What it shows is for people, and not among the JSON lines.
    test.env("OARLOCK_FAULTS", &rows).stdout(std::io::stderr());
    ensure!(test.status().await?.success(), "{SCENE} failed");
    let text = std::fs::read_to_string(&rows)
        .context("compose.yaml was not tried: docker, compose v2, or an image is missing")?;
    let mut figures = Vec::new();
    for line in text.lines() {
        let Row { fault: Some(fault), writes, reads, work } = serde_json::from_str(line)? else { continue };
        for (what, took) in [("writes", writes), ("reads", reads), ("a Deployment", work)] {
            let took = took.with_context(|| format!("nothing is said of {what} when {fault}"))? / 1000.0;
            figures.push(Figure::new(format!("{fault}: {what}"), took, "s", Better::Lower));
        }
    }
    Ok(figures)
}
