//! The violations found, and how often each rule was checked.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, Place};

/// The most characters of a line that are shown as evidence.
const SHOWN: usize = 400;

/// The rules; the library's documentation states them in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The log is one order of writes, each made by a call.
    Log,
    /// Acknowledged writes are in the log.
    W1,
    /// Writes followed the revision that they expected.
    W2,
    /// Real time and reads agree with the log's order.
    W3,
    /// Refusals are justified.
    W4,
    /// Unknown writes happened at most once.
    W5,
    /// Watches deliver the log.
    W6,
    /// The pages of a list are one state.
    W7,
    /// A general checker finds a linear order too.
    Second,
    /// Fenced writes lie within their epochs.
    F1,
}

impl Rule {
    /// All rules, in the order of the report.
    pub const ALL: [Self; 10] =
        [Self::Log, Self::W1, Self::W2, Self::W3, Self::W4, Self::W5, Self::W6, Self::W7, Self::Second, Self::F1];
    /// The rules about clients and the log.
    pub const OF_CLIENTS: [Self; 9] =
        [Self::Log, Self::W1, Self::W2, Self::W3, Self::W4, Self::W5, Self::W6, Self::W7, Self::Second];

    const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Log => ("log", "revisions rise, each record names its predecessor, somebody asked for it"),
            Self::W1 => ("W1", "acknowledged writes are in the log, as acknowledged, once"),
            Self::W2 => ("W2", "each write follows what it expected"),
            Self::W3 => ("W3", "what returned earlier has the lower revision; reads equal the log and are fresh"),
            Self::W4 => {
                ("W4", "refusals are justified by a state within their interval, and nothing refused was written")
            }
            Self::W5 => ("W5", "writes of unknown outcome are in the log at most once"),
            Self::W6 => ("W6", "watches equal the filtered log, in order, once each, through resumes"),
            Self::W7 => ("W7", "pages of a list equal the state at one revision"),
            Self::Second => ("2nd", "histories of single keys have a linear order (general checker)"),
            Self::F1 => ("F1", "each fenced write lies within its epoch"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name().0)
    }
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The violated rule.
    pub rule: Rule,
    /// The details.
    pub what: String,
    /// The lines that show the violation, the violating one first.
    pub evidence: Vec<Place>,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The violations, in the order in which they were found.
    pub violations: Vec<Violation>,
    checked: BTreeMap<Rule, u64>,
}

impl Report {
    /// Returns how often a rule was checked: a rule that was never checked has shown nothing.
    #[must_use]
    pub fn checked(&self, rule: Rule) -> u64 {
        self.checked.get(&rule).copied().unwrap_or(0)
    }

    /// Whether a rule was violated.
    #[must_use]
    pub fn broken(&self, rule: Rule) -> bool {
        self.violations.iter().any(|violation| violation.rule == rule)
    }

    pub(crate) fn count(&mut self, rule: Rule) {
        *self.checked.entry(rule).or_default() += 1;
    }

    /// Adds a violation; lines without a place are left out.
    pub(crate) fn broke(&mut self, rule: Rule, what: String, evidence: impl IntoIterator<Item = Option<Place>>) {
        self.violations.push(Violation { rule, what, evidence: evidence.into_iter().flatten().collect() });
    }

    /// Returns a report: the violations with their evidence (at most `most` of each rule), and the table.
    #[must_use]
    pub fn show<'a>(&'a self, history: &'a History, most: usize) -> impl fmt::Display + 'a {
        Shown { report: self, history, most }
    }
}

struct Shown<'a> {
    report: &'a Report,
    history: &'a History,
    most: usize,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in Rule::ALL {
            let found: Vec<_> = self.report.violations.iter().filter(|violation| violation.rule == rule).collect();
            for violation in found.iter().take(self.most) {
                writeln!(f, "{rule}: {}", violation.what)?;
                for place in &violation.evidence {
                    let source = self.history.sources.get(place.file);
                    let text = source.and_then(|source| source.lines.get(place.line)).map_or("", |line| line);
                    let name = source.map_or("", |source| &source.name);
                    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
                    writeln!(f, "  {name}:{}: {}", place.line + 1, text.get(..end).unwrap_or_default())?;
                }
            }
            if found.len() > self.most {
                writeln!(f, "{rule}: and {} more", found.len() - self.most)?;
            }
        }
        writeln!(f, "rule   checked  broken")?;
        for rule in Rule::ALL {
            let broken = self.report.violations.iter().filter(|violation| violation.rule == rule).count();
            writeln!(f, "{rule:<4} {:>9} {broken:>7}  {}", self.report.checked(rule), rule.name().1)?;
        }
        Ok(())
    }
}
