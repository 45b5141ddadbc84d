//! `cargo xtask faults`: repeats every test with faults and writes the table of results (`docs/operations/faults.md`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::blocks::{self, BEGINS as SCENE};
use crate::compile::compile;
use crate::since::INTEGRATION;
use crate::tool::{output, root, say, target};

const PAGE: &str = "docs/operations/faults.md";
const RULES: [&str; 10] = ["log", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "2nd", "F1"];
/// The line after which `cargo xtask faults` writes the tables.
const MARK: &str = "<!-- cargo xtask faults writes what follows -->\n";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each test runs.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    /// Only tests whose name contains this; rows of other scenes stay.
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

/// The observations of one fault in all runs.
struct Fault {
    name: String,
    times: u64,
    calls: u64,
    unknown: u64,
    /// Milliseconds.
    writes: u64,
    reads: u64,
}

/// The observations of one scene in all runs.
#[derive(Default)]
struct Scene {
    runs: u64,
    faults: Vec<Fault>,
    /// How often each rule was asked.
    rules: BTreeMap<String, u64>,
}

impl Args {
    /// Each test once.
    pub(crate) fn once() -> Self {
        Self { runs: 1, only: None }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let provenance = provenance()?;
    let rows = target().join("faults.jsonl");
    let _there_was_none = std::fs::remove_file(&rows);
    let filter = format!("faults::{}", args.only.as_deref().unwrap_or_default());
    let tests = compile()?;
    let tests = tests.iter().find(|test| test.package == INTEGRATION).context("there are no such tests")?;
    for number in 1..=args.runs {
        say(&format!("run {number} of {}", args.runs));
        let mut command = tests.command();
        // One test at a time, so that gaps in the service are effects of the fault only.
        command.args([&filter, "--test-threads", "1"]).env("OARLOCK_FAULTS", &rows);
        ensure!(tests.show(&mut command)?, "a rule is broken, or a run is void");
    }
    let text = std::fs::read_to_string(&rows).context("no test said anything")?;
    let seen = blocks(&scenes(&text)?, &provenance);
    let page = root().join(PAGE);
    let text = std::fs::read_to_string(&page)?;
    let (before, known) = text.split_once(MARK).context("the page has lost its mark")?;
    std::fs::write(&page, format!("{before}{MARK}\n{}", table(known, seen)))?;
    say(&format!("{PAGE} is written"));
    Ok(())
}

/// Returns the commit, whether the work tree differs from it, and the machine.
fn provenance() -> anyhow::Result<String> {
    let commit = output(Command::new("git").args(["describe", "--always", "--dirty"]))?;
    Ok(format!("{}, {} cores", commit.trim(), std::thread::available_parallelism()?))
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

/// The rows of each scene: what was judged, of which commit and where, and below that its faults.
fn blocks(scenes: &BTreeMap<String, Scene>, provenance: &str) -> BTreeMap<String, String> {
    let block = |(name, scene): (&String, &Scene)| {
        let rules = RULES.map(|rule| scene.rules.get(rule).copied().unwrap_or(0).to_string()).join(" | ");
        let mut text = format!("{SCENE}{name}**, {provenance} | {} | | | | | {rules} |\n", scene.runs);
        for Fault { name, times, calls, unknown, writes, reads } in &scene.faults {
            let (writes, reads) = (seconds(*writes), seconds(*reads));
            let rules = " |".repeat(RULES.len());
            let _ = writeln!(text, "| {name} | {times} | {calls} | {unknown} | {writes} | {reads} |{rules}");
        }
        (name.clone(), text)
    };
    scenes.iter().map(block).collect()
}

/// Returns one table: the new rows, and the known rows of the other scenes.
fn table(known: &str, seen: BTreeMap<String, String>) -> String {
    let head = format!(
        "| scene, its commit, where; fault | runs | calls | unknown | writes, s | reads, s | {} |\n",
        RULES.join(" | ")
    );
    let ruler = format!("|---|---:|---:|---:|---:|---:|{}\n", "---:|".repeat(RULES.len()));
    head + &ruler + &blocks::merged(known, seen)
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:02}", milliseconds / 1000, milliseconds % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::{blocks, scenes, table};

    #[test]
    fn runs_are_added_up_the_worst_gap_stands_and_other_scenes_stay() {
        let text = r#"{"scene":"s","fault":"f","calls":3,"unknown":1,"writes":1500,"reads":20}
{"scene":"s","rules":{"W1":5}}
{"scene":"s","fault":"f","calls":4,"unknown":0,"writes":20,"reads":2010}
{"scene":"s","rules":{"W1":6}}"#;
        let known = "| scene |\n|---|\n| **r**, old | 1 |\n| x | 1 |\n| **s**, old | 1 |\n| gone | 1 |\n";
        let table = table(known, blocks(&scenes(text).unwrap(), "new"));
        assert!(table.contains("| **r**, old | 1 |\n| x | 1 |\n| **s**, new | 2 | | | | | 0 | 11 |"), "{table}");
        assert!(table.contains("| f | 2 | 7 | 1 | 1.50 | 2.01 |"), "{table}");
        assert!(!table.contains("gone"), "{table}");
        assert!(scenes("{}").is_err());
    }
}
