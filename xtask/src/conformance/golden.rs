//! The golden list of specs that pass, and the known reasons of those that do not: `tests/conformance/passing.txt` and `known.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::outcome::{Outcome, State};
use crate::tool::{root, say};

/// The golden list: one name a line, sorted. The list only grows.
pub(crate) const PASSING: &str = "tests/conformance/passing.txt";
/// The known reasons of failures.
pub(crate) const KNOWN: &str = "tests/conformance/known.toml";

/// Both lists.
pub(crate) struct Golden {
    passing: BTreeSet<String>,
    known: Vec<Feature>,
}

/// A feature that failing specs wait for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Feature {
    /// A name of it.
    waits_for: String,
    /// Number of the issue that adds the feature.
    issue: u32,
    /// The failure of the feature's specs.
    reason: String,
    /// Their names.
    specs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    feature: Vec<Feature>,
}

impl Golden {
    /// Reads both lists.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let read = |file: &str| std::fs::read_to_string(root().join(file)).with_context(|| file.to_owned());
        Self::of(&read(PASSING)?, &read(KNOWN)?)
    }

    fn of(passing: &str, known: &str) -> anyhow::Result<Self> {
        let lines: Vec<&str> = passing.lines().collect();
        ensure!(lines.is_sorted_by(|a, b| a < b), "{PASSING}: lines are not sorted, or not unique");
        let Known { feature: known } = toml::from_str(known).context(KNOWN)?;
        let mut names = BTreeSet::new();
        for name in known.iter().flat_map(|feature| &feature.specs) {
            ensure!(names.insert(name), "{KNOWN}: two reasons for {name}");
        }
        Ok(Self { passing: lines.into_iter().map(str::to_owned).collect(), known })
    }

    /// The specs that wait for a feature.
    pub(crate) fn known(&self) -> Vec<&str> {
        self.known.iter().flat_map(|feature| &feature.specs).map(String::as_str).collect()
    }

    /// The feature that a spec waits for.
    pub(crate) fn feature(&self, name: &str) -> Option<&Feature> {
        self.known.iter().find(|feature| feature.specs.iter().any(|spec| spec == name))
    }

    /// The specs of the list of passing ones that failed, though no reason is known.
    pub(crate) fn unexpected(&self, outcomes: &BTreeMap<String, Outcome>) -> Vec<String> {
        let failed = outcomes.iter().filter(|(_, outcome)| outcome.state == State::Failed).map(|(name, _)| name);
        failed.filter(|name| self.passing.contains(*name) && self.feature(name).is_none()).cloned().collect()
    }
}

impl Feature {
    fn text(&self) -> String {
        format!("{} (issue {}): {}", self.waits_for, self.issue, self.reason)
    }
}

/// The judgement of a run.
pub(crate) struct Verdict {
    passed: usize,
    skipped: usize,
    /// Failed the first time and passed the second.
    flaky: Vec<(String, String)>,
    /// Failed with a known reason: the feature, and its specs with what each met.
    known: BTreeMap<String, Vec<(String, String)>>,
    /// Failed without one, and whether each passed before.
    red: Vec<(String, String, bool)>,
    /// Asked for by name and not run.
    missing: Vec<String>,
    /// Passed, and not on the list yet.
    new: Vec<String>,
    /// The spec passed, though `known.toml` gives a reason for a failure.
    stale: Vec<String>,
}

impl Verdict {
    /// Judges outcomes; `asked` are the names of a list.
    pub(crate) fn of(outcomes: &BTreeMap<String, Outcome>, golden: &Golden, asked: &[String]) -> Self {
        let mut verdict = Self {
            passed: 0,
            skipped: 0,
            flaky: Vec::new(),
            known: BTreeMap::new(),
            red: Vec::new(),
            missing: asked.iter().filter(|name| !outcomes.contains_key(*name)).cloned().collect(),
            new: Vec::new(),
            stale: Vec::new(),
        };
        for (name, outcome) in outcomes {
            let (listed, feature) = (golden.passing.contains(name), golden.feature(name));
            let met = (name.clone(), outcome.reason.clone());
            match (outcome.state, feature) {
                (State::Passed, feature) => {
                    verdict.passed += 1;
                    verdict.flaky.extend(outcome.first_try.clone().map(|first| (name.clone(), first)));
                    verdict.stale.extend(feature.is_some().then(|| name.clone()));
                    verdict.new.extend((!listed).then(|| name.clone()));
                }
                // A listed spec that passed before and now skips itself has shown nothing.
                (State::Skipped, None) if listed => verdict.red.push((met.0, met.1, true)),
                (State::Skipped, _) => verdict.skipped += 1,
                (State::Failed, Some(feature)) => verdict.known.entry(feature.text()).or_default().push(met),
                (State::Failed, None) => verdict.red.push((met.0, met.1, listed)),
            }
        }
        verdict
    }

    /// Whether every spec passed or has a reason.
    pub(crate) fn is_green(&self) -> bool {
        self.red.is_empty() && self.missing.is_empty()
    }

    /// Returns the specs that are not green, in one line.
    pub(crate) fn red(&self) -> String {
        let before = self.red.iter().filter(|(_, _, listed)| *listed).count();
        format!(
            "{} specs failed without a reason in {KNOWN}, of which {before} passed before; {} of the list were not run",
            self.red.len(),
            self.missing.len()
        )
    }

    /// Everything, for the person at the terminal.
    pub(crate) fn text(&self) -> String {
        let known: usize = self.known.values().map(Vec::len).sum();
        let mut text = format!(
            "\n{} passed, {} failed: {known} with a known reason, {} without; {} left themselves out\n",
            self.passed,
            known + self.red.len(),
            self.red.len(),
            self.skipped
        );
        let mut block = |title: &str, lines: &mut dyn Iterator<Item = String>| {
            for (number, line) in lines.enumerate() {
                if number == 0 {
                    let _a_string_takes_all = writeln!(text, "{title}:");
                }
                let _a_string_takes_all = writeln!(text, "  {line}");
            }
        };
        for (feature, specs) in &self.known {
            block(feature, &mut specs.iter().map(|(name, met)| format!("{name}: {met}")));
        }
        block("FLAKY, passed a second time", &mut self.flaky.iter().map(|(name, met)| format!("{name}: {met}")));
        let new = self.new.len();
        block(&format!("{new} passed and are not in {PASSING} (--grow adds them)"), &mut self.new.iter().cloned());
        block(&format!("passed, and {KNOWN} says that they cannot"), &mut self.stale.iter().cloned());
        block("NOT RUN, though they are on the list", &mut self.missing.iter().cloned());
        let red = |(name, met, listed): &(String, String, bool)| {
            format!("{}{name}: {met}", if *listed { "passed before: " } else { "" })
        };
        block("FAILED WITHOUT A REASON", &mut self.red.iter().map(red));
        text
    }
}

/// Adds what passed to the list as it is now: another run may have added to it meanwhile.
pub(crate) fn grow(outcomes: &BTreeMap<String, Outcome>) -> anyhow::Result<()> {
    let golden = Golden::read()?;
    let passed = outcomes.iter().filter(|(_, outcome)| outcome.passed()).map(|(name, _)| name);
    let all: BTreeSet<&String> = golden.passing.iter().chain(passed).collect();
    let text: String = all.iter().map(|name| format!("{name}\n")).collect();
    std::fs::write(root().join(PASSING), text)?;
    say(&format!("{PASSING}: {} names, {} of them new", all.len(), all.len() - golden.passing.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Golden, Outcome, State, Verdict};

    const KNOWN: &str =
        "[[feature]]\nwaits_for = 'hooks'\nissue = 25\nreason = 'none is called'\nspecs = ['b', 'c', 'e']\n";

    fn outcomes(rows: &[(&str, State)]) -> BTreeMap<String, Outcome> {
        let outcome =
            |state| Outcome { state, seconds: 1.0, reason: "late".to_owned(), at: String::new(), first_try: None };
        rows.iter().map(|(name, state)| ((*name).to_owned(), outcome(*state))).collect()
    }

    #[test]
    fn failures_need_a_reason_and_new_passes_are_named() {
        let golden = Golden::of("a\nb\nd\n", KNOWN).unwrap();
        let seen = [("a", State::Failed), ("b", State::Failed), ("c", State::Passed), ("f", State::Failed)];
        let verdict = Verdict::of(&outcomes(&seen), &golden, &["d".to_owned()]);
        let red = verdict.red.iter().map(|(name, _, listed)| (name.as_str(), *listed)).collect::<Vec<_>>();
        assert_eq!(red, [("a", true), ("f", false)]);
        assert_eq!((verdict.new.as_slice(), verdict.stale.as_slice()), (&["c".to_owned()][..], &["c".to_owned()][..]));
        assert_eq!(verdict.missing, ["d"]);
        assert!(!verdict.is_green());
        assert!(verdict.text().contains("hooks (issue 25): none is called:\n  b: late"), "{}", verdict.text());
        assert_eq!(golden.unexpected(&outcomes(&seen)), ["a"]);
    }

    #[test]
    fn a_run_is_green_when_all_is_explained() {
        let golden = Golden::of("a\nb\n", KNOWN).unwrap();
        let seen = outcomes(&[("a", State::Passed), ("b", State::Failed), ("g", State::Skipped)]);
        assert!(Verdict::of(&seen, &golden, &["a".to_owned()]).is_green());
        let left_out = outcomes(&[("a", State::Skipped)]);
        assert!(!Verdict::of(&left_out, &golden, &[]).is_green(), "a spec that passed before leaves itself out");
        let missing = outcomes(&[("b", State::Failed)]);
        assert!(!Verdict::of(&missing, &golden, &["a".to_owned()]).is_green(), "a listed spec was not run");
    }

    #[test]
    fn lists_are_sorted_and_no_spec_has_two_reasons() {
        assert!(Golden::of("b\na\n", KNOWN).is_err());
        assert!(Golden::of("a\na\n", KNOWN).is_err());
        assert!(Golden::of("a\n", &KNOWN.replace("'c'", "'b'")).is_err());
        assert!(Golden::of("a\n", &KNOWN.replace("reason", "why")).is_err());
    }

    #[test]
    fn the_lists_of_the_project_can_be_read() {
        Golden::read().unwrap();
    }
}
