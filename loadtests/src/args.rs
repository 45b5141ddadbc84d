//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::scenarios::Scenario;
use crate::subject::Peers;

/// Measures an oarlock that this command starts and ends itself, and upstream beside it if asked.
#[derive(Clone, Debug, Parser)]
#[command(name = "oarlock-loadtests", version, about)]
pub(crate) struct Args {
    /// Scenarios to run, by name, by how names begin (`takeover-*`), or as TOML files like those in loadtests/scenarios; all of ours that are not long when
    /// none is named.
    pub(crate) scenarios: Vec<String>,
    /// The executable to measure.
    #[arg(long, value_name = "FILE", help = format!("The executable to measure [default: {OARLOCK}]"))]
    pub(crate) oarlock: Option<PathBuf>,
    /// Measure this beside it, in turns, and print ratios. Upstream's programs are built from their Go modules when they are not there.
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) compare: Option<Compare>,
    #[command(flatten)]
    pub(crate) peers: Peers,
    /// Measure this commit beside today's tree, in turns, and judge each figure: exit 1 when one is worse by more than 5 % and the noise, 2 when nothing could
    /// be judged. The commit is built in `target/against`; with --oarlock FILE that is taken for today's executable.
    #[arg(long, value_name = "REF", group = "beside", conflicts_with = "compare")]
    pub(crate) against: Option<String>,
    /// Measure what this cargo profile costs: today's tree built with it, beside today's tree built with --profile, on creates and scheduling. Judged as
    /// --against, with a limit of 25 %.
    #[arg(long, value_name = "PROFILE", group = "beside", conflicts_with_all = ["compare", "oarlock"])]
    pub(crate) cost_of_profile: Option<String>,
    /// The cargo profile of both sides of --against, and of what --cost-of-profile compares with; `dist` when none is named. `release` is for a quick look, `dev`
    /// to try the mechanism.
    #[arg(long, value_name = "PROFILE", requires = "beside")]
    pub(crate) profile: Option<String>,
    /// How often each scenario is repeated, whatever its file says; with --against and --cost-of-profile on each side, 8 times when it is not said.
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Measure although something else keeps the processors busy.
    #[arg(long)]
    pub(crate) anyway: bool,
    /// List the scenarios and end.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print only JSON lines, no table: one for each leg, with --against and --cost-of-profile one for each figure and its verdict.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where cargo puts what figures are measured of.
pub(crate) const OARLOCK: &str = "target/dist/oarlock";
/// Its profile.
const DIST: &str = "dist";
/// What says how fast a build creates and schedules.
const CREATES_AND_SCHEDULING: [&str; 3] = ["create-1", "create-64", "schedule-basic-1k"];

/// What another build is that is measured beside one of today's tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside<'a> {
    /// A commit, with the same profile: today's must not be worse.
    Commit(&'a str),
    /// Today's tree with another profile, which must not be much worse.
    Profile(&'a str),
}

impl Beside<'_> {
    /// How much worse than the other a side may be, as a share.
    pub(crate) const fn limit(self) -> f64 {
        match self {
            Self::Commit(_) => 0.05,
            Self::Profile(_) => 0.25,
        }
    }
}

impl Args {
    /// What another build is measured for, if one is.
    pub(crate) fn beside(&self) -> Option<Beside<'_>> {
        let profile = self.cost_of_profile.as_deref().map(Beside::Profile);
        self.against.as_deref().map(Beside::Commit).or(profile)
    }

    /// The profile of what both are compared with.
    pub(crate) fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or(DIST)
    }

    /// The scenarios that were asked for; else those that come along and are not long, or for a profile's cost those of creates and scheduling.
    ///
    /// # Errors
    /// As [`Scenario::wanted`].
    pub(crate) fn scenarios(&self) -> anyhow::Result<Vec<Scenario>> {
        if self.scenarios.is_empty() && self.cost_of_profile.is_some() {
            return Scenario::wanted(&CREATES_AND_SCHEDULING.map(str::to_owned));
        }
        let mut scenarios = Scenario::wanted(&self.scenarios)?;
        scenarios.retain(|scenario| self.list || !scenario.long || !self.scenarios.is_empty());
        Ok(scenarios)
    }
}

/// What can be measured beside us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compare {
    /// Upstream's Kubernetes and etcd.
    Upstream,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("oarlock-loadtests").chain(words.iter().copied()))
    }

    #[test]
    fn another_build_is_measured_beside_today_with_one_question_at_a_time() {
        let both = parse(&["--against", "HEAD", "--oarlock", "x"]).unwrap();
        assert!(matches!(both.beside(), Some(Beside::Commit("HEAD"))));
        let cost = parse(&["--cost-of-profile", "release"]).unwrap();
        assert!(matches!((cost.beside(), cost.profile()), (Some(Beside::Profile("release")), "dist")));
        assert!(parse(&["--list"]).unwrap().beside().is_none());
        let refused: [&[&str]; 4] = [
            &["--profile", "release"],
            &["--against", "HEAD", "--compare", "upstream"],
            &["--against", "HEAD", "--cost-of-profile", "release"],
            &["--cost-of-profile", "release", "--oarlock", "x"],
        ];
        for words in refused {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn long_scenarios_run_when_they_are_named_and_a_profile_has_its_own() {
        let names = |words: &[&str]| -> Vec<String> {
            parse(words).unwrap().scenarios().unwrap().into_iter().map(|scenario| scenario.name).collect()
        };
        let long = |names: Vec<String>| names.iter().any(|name| name.starts_with("takeover-"));
        assert_eq!([long(names(&[])), long(names(&["--list"])), long(names(&["takeover-*"]))], [false, true, true]);
        assert_eq!(names(&["--cost-of-profile", "release"]), CREATES_AND_SCHEDULING);
        assert_eq!(names(&["--cost-of-profile", "release", "list"]), ["list"]);
    }

    #[test]
    fn every_load_test_in_documents_exists_and_takes_its_flags() {
        for shown in oarlock_testkit::documents::commands(&["cargo", "run"]) {
            let Some(start) = shown.words.windows(2).position(|pair| pair == ["-p", "oarlock-loadtests"]) else {
                continue;
            };
            let words: Vec<&str> = shown.words[start + 2..].iter().skip(1).map(String::as_str).collect();
            if let Some(why) = refusal(&words) {
                panic!("{}: {why}", shown.place);
            }
        }
    }

    #[test]
    fn a_load_test_that_does_not_exist_is_found() {
        for words in [&["no-such-scenario"][..], &["--no-such-flag"], &["--rounds", "none", "list"]] {
            assert!(refusal(words).is_some(), "{words:?}");
        }
    }

    /// Returns why there are no load tests of these words.
    fn refusal(words: &[&str]) -> Option<String> {
        match parse(words) {
            Err(error) => Some(error.to_string()),
            Ok(args) => args.scenarios().err().map(|error| format!("{error:#}")),
        }
    }
}
