//! Compares two builds in turns and judges each figure: today's tree and a commit with the same profile, or today's tree with two profiles.
//!
//! Each leg is a process of its own, of the programs that were built for the run, so that neither side depends on how this program was built. Both sides run
//! today's scenario file.

mod builds;
mod leg;
mod table;

use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::args::{Args, Beside};
use crate::machine::Machine;
use crate::output::say;
use crate::scenarios::{Measures, Scenario};
use crate::verdict;
use builds::{Builds, Side};
use leg::Legs;
use table::Table;

/// How often each side of a scenario is measured: of eight values one may be an outlier, and a slowdown still shows (`verdict`).
const ROUNDS: usize = 8;
/// The exit code when a figure is worse.
pub(crate) const WORSE: u8 = 1;
/// The exit code when something could not be measured, or nothing could be judged.
pub(crate) const UNMEASURED: u8 = 2;

/// Builds both sides, measures, and prints the verdicts; the exit code.
///
/// # Errors
/// When a side does not build, or the number of rounds is too small for a verdict.
pub(crate) async fn run(args: &Args, beside: Beside<'_>, scenarios: &[Scenario]) -> anyhow::Result<ExitCode> {
    let rounds = args.rounds.unwrap_or(ROUNDS);
    ensure!(rounds >= verdict::FEWEST, "--rounds {rounds}: no verdict can be given on fewer than {}", verdict::FEWEST);
    let builds = Builds::make(args, beside).await?;
    if !args.json {
        say(&format!("{}\n{builds}\n", Machine::look()));
    }
    let mut table = Table::new(&builds, beside.limit());
    for scenario in scenarios {
        if let Some(limit) = scenario.limit {
            table.limit(&scenario.name, limit);
        }
        if let Err(why) = measure(args, rounds, &builds, scenario, &mut table).await {
            table.not_measured(&scenario.name, &format!("{why:#}"));
        }
    }
    if args.json {
        table.json().iter().for_each(|line| say(&line.to_string()));
    } else {
        table.lines().iter().for_each(|line| say(line));
    }
    Ok(table.exit_code().into())
}

/// Measures a scenario on both sides, unless one side does not know it.
async fn measure(
    args: &Args,
    rounds: usize,
    builds: &Builds,
    scenario: &Scenario,
    table: &mut Table<'_>,
) -> anyhow::Result<()> {
    if scenario.measures() == Measures::Images {
        table.left_out(&scenario.name, "its images are not built here");
        return Ok(());
    }
    let legs = Legs::new(builds, scenario, args.anyway)?;
    for side in Side::BOTH {
        if let Some(why) = legs.unknown(side).await? {
            table.left_out(&scenario.name, &format!("{} does not know it: {why}", builds.of(side).name));
            return Ok(());
        }
    }
    for round in 0..rounds {
        for side in turn(round) {
            let name = &builds.of(side).name;
            let figures = legs.run(side).await.with_context(|| format!("round {} of {name}", round + 1))?;
            if !args.json {
                let leg =
                    serde_json::json!({"scenario": scenario.name, "side": name, "round": round, "figures": figures});
                say(&leg.to_string());
            }
            table.add(&scenario.name, side, figures);
        }
    }
    Ok(())
}

/// The side that begins changes with each round (A B B A A B …), so that a machine that becomes slower or faster affects both sides alike.
const fn turn(round: usize) -> [Side; 2] {
    let [base, today] = Side::BOTH;
    if round.is_multiple_of(2) { [base, today] } else { [today, base] }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use clap::Parser as _;
    use serde_json::Value;

    use super::*;

    /// Finds 100 creates a second with the executable of `base`, 80 with the other; fails on the scenario `list`. Writes down who drives what.
    const LOADTESTS: &str = r#"#!/bin/sh
[ "$1" = --list ] && exit 0
echo "$0 $5" >> "${0%/*/*}/log"
case "$5" in */base/*) creates=100 ;; *) creates=80 ;; esac
case "$6" in */list.toml) echo "the server has ended" >&2; exit 1 ;; esac
echo '{"figures":[{"name":"creates","value":'$creates',"unit":"/s","better":"higher"}]}'
"#;
    /// Knows no flag of a scenario.
    const OARLOCK: &str = r#"#!/bin/sh
[ "$2" = --help ] && exit 0
echo "error: unexpected argument '$2' found" >&2
exit 2
"#;

    fn programs(folder: &Path) {
        for side in ["base", "today"] {
            std::fs::create_dir(folder.join(side)).unwrap();
            for (name, text) in [("oarlock", OARLOCK), ("oarlock-loadtests", LOADTESTS)] {
                let file = folder.join(side).join(name);
                std::fs::write(&file, text).unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }

    /// The commands that were run since the last call.
    fn drives(folder: &Path) -> Vec<String> {
        let log = folder.join("log");
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(log).unwrap();
        text.lines().map(|line| line.replace(&format!("{}/", folder.display()), "").replace("oarlock", "o")).collect()
    }

    // One test: a program must not be started while another thread writes it.
    #[tokio::test]
    async fn sides_take_turns_and_what_one_does_not_know_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        programs(folder.path());
        let builds = Builds::fake(folder.path());
        let args = Args::parse_from(["oarlock-loadtests", "--json"]);
        let mut table = Table::new(&builds, 0.05);
        let names = ["create-1", "write-path", "memory-cold-10k", "compose-kill", "list"].map(str::to_owned);
        let mut drives_of = Vec::new();
        for scenario in Scenario::wanted(&names).unwrap() {
            let measured = measure(&args, verdict::FEWEST, &builds, &scenario, &mut table).await;
            match scenario.name.as_str() {
                "list" => assert_eq!(format!("{:#}", measured.unwrap_err()), "round 1 of base: the server has ended"),
                _ => measured.unwrap(),
            }
            if ["create-1", "write-path"].contains(&scenario.name.as_str()) {
                drives_of.push(drives(folder.path()));
            }
        }

        let (base, today) = ("today/o-loadtests base/o", "today/o-loadtests today/o");
        let turns = [base, today, today, base, base, today, today, base, base, today];
        assert_eq!(drives_of.first().unwrap(), &turns);
        let own = turns.map(|turn| if turn == base { "base/o-loadtests base/o" } else { today });
        assert_eq!(drives_of.last().unwrap(), &own);

        let said = |line: &Value| ["scenario", "verdict", "why"].map(|key| line[key].as_str().unwrap_or("").to_owned());
        let said: Vec<_> = table.json().iter().map(said).collect();
        let expected = [
            ["create-1", "worse", ""],
            ["write-path", "worse", ""],
            [
                "memory-cold-10k",
                "left out",
                "base does not know it: error: unexpected argument '--watch-window-bytes' found",
            ],
            ["compose-kill", "left out", "its images are not built here"],
        ];
        assert_eq!(said, expected);
        assert_eq!(table.exit_code(), WORSE);
    }

    #[tokio::test]
    async fn so_few_rounds_that_nothing_can_be_said_are_refused_before_anything_is_built() {
        let args = Args::parse_from(["oarlock-loadtests", "--against", "HEAD", "--rounds", "4"]);
        let error = run(&args, args.beside().unwrap(), &[]).await.unwrap_err().to_string();
        assert!(error.starts_with("--rounds 4: "), "{error}");
    }
}
