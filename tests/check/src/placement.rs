//! Judges whether every pod was placed as its constraints demand: replays a log of nodes and pods, and checks each binding against the state at its
//! revision.
//!
//! This module shares no code with the scheduler: it computes anew what a pod requests, which pods a selector matches and which domains a constraint
//! spans. A scheduler can break a rule only by a binding or a preemption, so most rules are checked at each binding, `nodeName` and the mark of a
//! victim at every record. Changes by others (a pod created with a node, a node that changes, a deletion) count from [`Rules::lag`] revisions on: the
//! scheduler need not have seen later ones. Where a rule needs other pods (affinity, the smallest domain of a spread), pods that wait for their node
//! count too: the decision may have relied on a pod that was accepted before and bound later, or whose binding failed.
//!
//! | rule | holds when |
//! |---|---|
//! | once | `spec.nodeName` of a pod is set once and stays |
//! | there | the node exists |
//! | admission | node name, node selector, required node affinity, taints and `unschedulable` let the pod onto the node |
//! | resources | of each resource that the pod requests, the sum over the node's pods is at most the allocatable amount; pods count too |
//! | ports | no two pods of a node have a host port in common |
//! | affinity | each required term finds its pod in the domain, or the pod is the first of its kind |
//! | anti-affinity | no required term, of the pod or of a pod on a node, finds the other pod in its domain |
//! | spread | each hard constraint's skew is at most its `maxSkew` |
//! | victims | a pod is marked as preempted only for a pod of higher priority that was nominated to the node before, while the victim was there |
//! | nominated | a pod leaves room for the pods that are nominated to its node, have at least its priority, and stay nominated for the lag |

mod facts;
mod judge;
mod nominations;
mod quantity;
mod read;
mod selectors;

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use read::{Line, Log};

/// The parameters of the judgement.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Values of `spec.schedulerName` whose bindings are judged.
    pub schedulers: Vec<String>,
    /// Number of revisions by which the scheduler's knowledge of other writers may lag.
    pub lag: u64,
    /// Number of revisions after the end of a nomination within which the mark of a victim may arrive. The mark is sent while the pod is nominated, but may
    /// be on its way for longer than its sender waits for the answer; the pod may have its node, or be deleted, before the mark arrives.
    pub late: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { schedulers: vec!["default-scheduler".to_owned()], lag: 200, late: 2_000 }
    }
}

/// A rule of placement; the module's table states the rules in full.
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
    /// All rules.
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

    /// Returns the rule's name.
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

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The violated rule.
    pub rule: Rule,
    /// The revision of the violating write.
    pub revision: u64,
    /// The key of the pod.
    pub pod: String,
    /// The details.
    pub what: String,
}

/// A mark of a victim that arrived after the nomination for which it was made. The log has no times: who knows those of the revisions can bound the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateMark {
    /// The revision of the mark.
    pub revision: u64,
    /// The revision at which the nomination ended.
    pub ended: u64,
}

/// The result of a judgement.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Number of judged bindings.
    pub bindings: u64,
    /// Number of pods that were created with a node, or were bound by another scheduler.
    pub others: u64,
    /// How often each rule was checked where it could have been broken.
    pub asked: BTreeMap<Rule, u64>,
    /// Number of bindings that break a rule only if the changes of others within the lag count.
    pub excused: u64,
    /// Marks of victims whose nominated pod lost its nomination before the lag.
    pub late: Vec<LateMark>,
    /// The violations.
    pub broken: Vec<Broken>,
    /// The highest requested share of each node's allocatable cpu, in per cent.
    pub fullest: BTreeMap<String, u64>,
}

impl Findings {
    /// Returns a report for people: the violations, at most `most` of each rule, and a table.
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
        let (Self { bindings, others, excused, .. }, late) = (self, self.late.len());
        let _ = writeln!(text, "bindings {bindings}, pods of others {others}, excused {excused}, late marks {late}");
        text
    }
}

/// Judges a log.
#[must_use]
pub fn judge(log: &Log, rules: &Rules) -> Findings {
    judge::Judge::new(rules).run(log)
}
