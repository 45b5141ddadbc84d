//! `cargo xtask faults`: runs every test with faults some times and writes down what was seen (`docs/operations/faults.md`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::tool::{capture, cargo, root, run as exec, say, target};

const PAGE: &str = "docs/operations/faults.md";
/// What comes after this line is ours.
const MARK: &str = "<!-- cargo xtask faults writes what follows -->\n";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each test runs.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    /// Only tests whose name contains this; the page is printed and not written.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// A line of the file to which tests append: of a fault, or of what was judged.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Fault { scene: String, fault: String, calls: u64, unknown: u64, writes: u64, reads: u64 },
    Judged { scene: String, rules: BTreeMap<String, u64> },
}

/// What was seen of a fault in all runs.
struct Fault {
    name: String,
    times: u64,
    calls: u64,
    unknown: u64,
    /// Milliseconds.
    writes: u64,
    reads: u64,
}

/// What was seen of a scene in all runs.
#[derive(Default)]
struct Scene {
    runs: u64,
    faults: Vec<Fault>,
    /// How often each rule was asked.
    rules: BTreeMap<String, u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    exec(cargo().args(["build", "-p", "oarlock"]))?;
    let rows = target().join("faults.jsonl");
    let _there_was_none = std::fs::remove_file(&rows);
    let filter = format!("faults::{}", args.only.as_deref().unwrap_or_default());
    for number in 1..=args.runs {
        say(&format!("run {number} of {}", args.runs));
        let mut command = cargo();
        command.env("OARLOCK_FAULTS", &rows);
        // One at a time: gaps are the fault's, and no neighbour's.
        command.args(["test", "-p", "oarlock-tests-integration", &filter, "--", "--test-threads", "1"]);
        exec(&mut command)?;
    }
    let text = std::fs::read_to_string(&rows).context("no test said anything")?;
    let table = format!("{}{}", provenance()?, table(&scenes(&text)?));
    let page = root().join(PAGE);
    if args.only.is_some() {
        say(&table);
        return Ok(());
    }
    let text = std::fs::read_to_string(&page)?;
    let (before, _) = text.split_once(MARK).context("the page has lost its mark")?;
    std::fs::write(&page, format!("{before}{MARK}{table}"))?;
    say(&format!("{PAGE} is written"));
    Ok(())
}

/// What ran where.
fn provenance() -> anyhow::Result<String> {
    let (ok, commit) = capture(Command::new("git").args(["log", "-1", "--format=%h of %cs"]))?;
    ensure!(ok, "{commit}");
    let cores = std::thread::available_parallelism()?;
    Ok(format!("\nCommit {}, the debug build, {cores} cores.\n\n", commit.trim()))
}

fn scenes(text: &str) -> anyhow::Result<BTreeMap<String, Scene>> {
    let mut scenes: BTreeMap<String, Scene> = BTreeMap::new();
    for line in text.lines() {
        match serde_json::from_str(line).with_context(|| line.to_owned())? {
            Row::Fault { scene, fault: name, calls, unknown, writes, reads } => {
                let faults = &mut scenes.entry(scene).or_default().faults;
                match faults.iter_mut().find(|known| known.name == name) {
                    Some(known) => {
                        known.times += 1;
                        known.calls += calls;
                        known.unknown += unknown;
                        known.writes = known.writes.max(writes);
                        known.reads = known.reads.max(reads);
                    }
                    None => faults.push(Fault { name, times: 1, calls, unknown, writes, reads }),
                }
            }
            Row::Judged { scene, rules } => {
                let scene = scenes.entry(scene).or_default();
                scene.runs += 1;
                for (rule, asked) in rules {
                    *scene.rules.entry(rule).or_default() += asked;
                }
            }
        }
    }
    Ok(scenes)
}

/// One table: of each scene what was judged, and below that its faults.
fn table(scenes: &BTreeMap<String, Scene>) -> String {
    const RULES: [&str; 10] = ["log", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "2nd", "F1"];
    let mut text =
        format!("| scene, fault | runs | calls | unknown | writes, s | reads, s | {} |\n", RULES.join(" | "));
    text += &format!("|---|---:|---:|---:|---:|---:|{}\n", "---:|".repeat(RULES.len()));
    for (name, scene) in scenes {
        let rules = RULES.map(|rule| scene.rules.get(rule).copied().unwrap_or(0).to_string());
        let _ = writeln!(text, "| **{name}** | {} | | | | | {} |", scene.runs, rules.join(" | "));
        for Fault { name, times, calls, unknown, writes, reads } in &scene.faults {
            let (writes, reads) = (seconds(*writes), seconds(*reads));
            let _ = writeln!(
                text,
                "| {name} | {times} | {calls} | {unknown} | {writes} | {reads} |{}",
                " |".repeat(RULES.len())
            );
        }
    }
    text
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:02}", milliseconds / 1000, milliseconds % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::{scenes, table};

    #[test]
    fn runs_are_added_up_and_the_worst_gap_stands() {
        let text = r#"{"scene":"s","fault":"f","calls":3,"unknown":1,"writes":1500,"reads":20}
{"scene":"s","rules":{"W1":5}}
{"scene":"s","fault":"f","calls":4,"unknown":0,"writes":20,"reads":2010}
{"scene":"s","rules":{"W1":6}}"#;
        let table = table(&scenes(text).unwrap());
        assert!(table.contains("| **s** | 2 | | | | | 0 | 11 |"), "{table}");
        assert!(table.contains("| f | 2 | 7 | 1 | 1.50 | 2.01 |"), "{table}");
        assert!(scenes("{}").is_err());
    }
}
