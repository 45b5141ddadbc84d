//! One round of a scenario on one side, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::Command;

use super::builds::{Builds, Side};
use crate::report::Figure;
use crate::scenarios::{Measures, Scenario};

/// The longest that a leg may take: a scenario has deadlines of its own, and the first may have to build upstream's etcd.
const LEG_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many of the last lines of a program's output an error shows.
const LINES: usize = 6;

/// The legs of a scenario.
pub(crate) struct Legs<'a> {
    builds: &'a Builds,
    scenario: &'a Scenario,
    anyway: bool,
    /// Today's scenario file, for both sides.
    folder: TempDir,
}

/// What the load tests print of a round.
#[derive(Deserialize)]
struct Line {
    figures: Vec<Figure>,
}

impl<'a> Legs<'a> {
    /// Legs of this scenario, also on a busy machine if `anyway`.
    ///
    /// # Errors
    /// When no temporary file can be written.
    pub(crate) fn new(builds: &'a Builds, scenario: &'a Scenario, anyway: bool) -> anyhow::Result<Self> {
        let legs = Self { builds, scenario, anyway, folder: tempfile::tempdir()? };
        std::fs::write(legs.file(), &scenario.text)?;
        Ok(legs)
    }

    /// The reason why a side cannot run the scenario, if any: the side's load tests refuse the file, or the executable refuses a flag.
    ///
    /// # Errors
    /// When the programs cannot be started.
    pub(crate) async fn unknown(&self, side: Side) -> anyhow::Result<Option<String>> {
        let mut read = Command::new(self.driver(side));
        read.arg("--list").arg(self.file());
        let mut flags = Command::new(&self.builds.of(side).oarlock);
        flags.arg("up").args(&self.scenario.setting.flags).arg("--help");
        for command in [read, flags] {
            let output = output(command).await?;
            if !output.status.success() {
                return Ok(Some(reason(&output.stderr)));
            }
        }
        Ok(None)
    }

    /// Measures a side once.
    ///
    /// # Errors
    /// When the leg fails, with the end of its output.
    pub(crate) async fn run(&self, side: Side) -> anyhow::Result<Vec<Figure>> {
        let mut command = Command::new(self.driver(side));
        command.args(["--json", "--rounds", "1", "--oarlock"]).arg(&self.builds.of(side).oarlock).arg(self.file());
        if self.anyway {
            command.arg("--anyway");
        }
        let output = output(command).await?;
        ensure!(output.status.success(), "{}", reason(&output.stderr));
        let said = String::from_utf8(output.stdout)?;
        let line = said.lines().find(|line| line.starts_with('{')).context("it printed no figures")?;
        Ok(serde_json::from_str::<Line>(line).context("its figures cannot be read")?.figures)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("{}.toml", self.scenario.name))
    }

    /// The load tests that measure a side: the side's own where the measured crates are linked into the load tests.
    fn driver(&self, side: Side) -> &Path {
        match self.scenario.measures() {
            Measures::Linked => &self.builds.of(side).loadtests,
            Measures::Executable | Measures::Images => &self.builds.driver,
        }
    }
}

async fn output(mut command: Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = tokio::time::timeout(LEG_TIMEOUT, command.output()).await;
    output.with_context(|| format!("{program} does not end"))?.with_context(|| program)
}

/// What a program said last, in a line.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    if last.is_empty() { "it said nothing".to_owned() } else { last.join("; ") }
}
