//! Upstream's end-to-end suite, started by ginkgo in the control plane's network.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use super::control_plane::ControlPlane;
use super::daemon::Daemon;
use super::outcome::{Outcome, outcomes};
use super::place::{NODES, Place};
use super::programs::Programs;
use super::selection::Part;
use crate::tool::{say, seconds};

/// Number of lines of ginkgo's log that are shown when it wrote no report.
const LAST_LINES: usize = 30;

/// The parameters of every part of the suite.
pub(crate) struct Suite<'a> {
    pub(crate) place: &'a Place,
    pub(crate) programs: &'a Programs,
    pub(crate) plane: &'a ControlPlane,
    /// Time limit of a part, in minutes.
    pub(crate) minutes: u64,
}

impl Suite<'_> {
    /// Runs parts of the specs at the same time; returns the seconds of each part, and the results of its specs by name.
    ///
    /// # Errors
    /// When a part did not begin. The others are run to their end.
    pub(crate) fn run_all(&self, parts: &[Part]) -> anyhow::Result<Vec<(f64, BTreeMap<String, Outcome>)>> {
        std::thread::scope(|scope| {
            let started: Vec<_> = parts.iter().map(|part| scope.spawn(|| seconds(|| self.run(part)))).collect();
            let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// Runs a part of the specs; returns the result of each, by its name.
    ///
    /// # Errors
    /// When the suite did not begin.
    pub(crate) fn run(&self, part: &Part) -> anyhow::Result<BTreeMap<String, Outcome>> {
        let log = part.log();
        let folder = self.place.logs().join(&log);
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        say(&format!("== {log}: {} at once, log {}.log", part.procs, folder.display()));
        let mut suite = Daemon::new(self.place, &log, &self.place.control())
            .start(&self.programs.tool("ginkgo"), self.arguments(part, &folder))?;
        let status = suite.wait()?;
        let report = folder.join("report.json");
        let Ok(text) = std::fs::read_to_string(&report) else {
            let log = std::fs::read_to_string(self.place.logs().join(format!("{log}.log")))?;
            let lines: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
            bail!("the suite wrote no report ({status}):\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"));
        };
        outcomes(&text).with_context(|| report.display().to_string())
    }

    fn arguments(&self, part: &Part, folder: &Path) -> Vec<String> {
        let mut words = vec![
            format!("--procs={}", part.procs),
            format!("--timeout={}m", self.minutes),
            format!("--label-filter={}", part.labels),
            format!("--output-dir={}", folder.display()),
            "--json-report=report.json".to_owned(),
            "--no-color".to_owned(),
            "--succinct".to_owned(),
        ];
        words.extend(part.focus.iter().map(|focus| format!("--focus={focus}")));
        words.extend(part.skip.iter().map(|skip| format!("--skip={skip}")));
        words.push(self.programs.tool("e2e.test").display().to_string());
        words.push("--".to_owned());
        words.extend([
            "--provider=skeleton".to_owned(),
            format!("--kubeconfig={}", self.plane.kubeconfig.display()),
            format!("--kubectl-path={}", self.programs.tool("kubectl").display()),
            format!("--num-nodes={}", NODES.len()),
            "--allowed-not-ready-nodes=-1".to_owned(),
            "--disable-log-dump".to_owned(),
            "--dump-logs-on-failure=false".to_owned(),
        ]);
        words
    }
}
