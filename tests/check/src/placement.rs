//! Judges whether every pod was placed as its constraints demand: replays a log of nodes and pods, and checks each binding against the state at its revision.
//!
//! Shares no code with the scheduler: what a pod requests, whom a selector means, which domains a constraint spans is worked out here anew. A binding
//! or a preemption is the only thing of a scheduler's that can break a rule, so each rule is asked at each binding, `nodeName` and the mark of a victim at every record. What others do
//! (a pod that is created with a node, a node that changes, a deletion) counts from [`Rules::lag`] revisions on: who decided need not have seen what is younger.
//! Where a rule wants others to be there (affinity, the least domain of a spread), pods that wait for their node count too: the decision may have rested
//! on one that was accepted before and bound later, or whose binding failed.
//!
//! | rule | holds when |
//! |---|---|
//! | once | `spec.nodeName` of a pod is set once and stays |
//! | there | the node is there |
//! | admission | node name, node selector, required node affinity, taints and `unschedulable` let the pod onto the node |
//! | resources | of each resource that the pod requests, the sum over the node's pods is at most what is allocatable; pods count too |
//! | ports | no two pods of a node have a host port in common |
//! | affinity | each required term finds its pod in the domain, or the pod is the first of its kind |
//! | anti-affinity | no required term, of the pod or of one that is there, finds the other in its domain |
//! | spread | each hard constraint's skew is at most its `maxSkew` |
//! | victims | who is marked as preempted is so for a pod of higher priority, which was nominated to the node before |
//! | nominated | a pod leaves room for those that are nominated to its node, are of its priority at least and stay so for the lag |

mod facts;
mod judge;
mod nominations;
mod quantity;
mod read;
mod selectors;

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use read::{Line, Log};

/// By which rules a log is judged.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Values of `spec.schedulerName` whose bindings are judged.
    pub schedulers: Vec<String>,
    /// For how many revisions whoever decides may not know what others have done.
    pub lag: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { schedulers: vec!["default-scheduler".to_owned()], lag: 200 }
    }
}

/// What a placement must not break; see the module text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the module text says what each is")]
pub enum Rule {
    Once,
    There,
    Admission,
    Resources,
    Ports,
    Affinity,
    AntiAffinity,
    Spread,
    Victims,
    Nominated,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Once,
        Self::There,
        Self::Admission,
        Self::Resources,
        Self::Ports,
        Self::Affinity,
        Self::AntiAffinity,
        Self::Spread,
        Self::Victims,
        Self::Nominated,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::There => "there",
            Self::Admission => "admission",
            Self::Resources => "resources",
            Self::Ports => "ports",
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::Spread => "spread",
            Self::Victims => "victims",
            Self::Nominated => "nominated",
        }
    }
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// By what was written at this revision.
    pub revision: u64,
    /// The pod, as its key.
    pub pod: String,
    /// How.
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Bindings that were judged.
    pub bindings: u64,
    /// Pods that came with a node, or were bound by others.
    pub others: u64,
    /// How often each rule was asked where it could have been broken.
    pub asked: BTreeMap<Rule, u64>,
    /// Bindings that break a rule only if what others did within the lag is counted.
    pub excused: u64,
    /// What is broken.
    pub broken: Vec<Broken>,
    /// The fullest that each node has been: the part of its allocatable cpu that pods requested, in per cent.
    pub fullest: BTreeMap<String, u64>,
}

impl Findings {
    /// For people: what is broken, at most so many of each rule, and a table.
    #[must_use]
    pub fn show(&self, most: usize) -> String {
        let mut text = String::new();
        for rule in Rule::ALL {
            for broken in self.broken.iter().filter(|broken| broken.rule == rule).take(most) {
                let Broken { revision, pod, what, .. } = broken;
                let _ = writeln!(text, "{} at {revision}: {pod}: {what}", rule.name());
            }
        }
        let _ = writeln!(text, "{:<14} {:>8} {:>8}", "rule", "asked", "broken");
        for rule in Rule::ALL {
            let broken = self.broken.iter().filter(|broken| broken.rule == rule).count();
            let _ =
                writeln!(text, "{:<14} {:>8} {broken:>8}", rule.name(), self.asked.get(&rule).copied().unwrap_or(0));
        }
        let Self { bindings, others, excused, .. } = self;
        let _ = writeln!(text, "bindings {bindings}, pods of others {others}, excused {excused}");
        text
    }
}

/// Judges a log.
#[must_use]
pub fn judge(log: &Log, rules: &Rules) -> Findings {
    judge::Judge::new(rules).run(log)
}
