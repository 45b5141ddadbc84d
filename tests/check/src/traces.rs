//! Judges the spans of objects' lives, as they were exported or kept in memory (`docs/adr/0007-traces.md`).
//!
//! | rule | holds when |
//! |---|---|
//! | T1 | each span's parent is a span of the same trace, or the root of a change that goes on, no id names two spans, and the links between given traces make one graph of them |
//! | T2 | each life has every step that was asked for |
//! | T3 | no span outlives its work: a step lies inside the change that it belongs to, and a `commit` inside the request that caused it |
//! | T4 | the times of the stages add up to what a user waited: the change began after the user had asked and ended before the user saw the result, and its stages take at least the time that is known |
//! | T5 | with a share of all lives exported, each life is whole or absent |
//!
//! Each rule is a function of the spans alone, and returns what breaks it.

mod graph;
mod stages;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use graph::connected;
pub use stages::{Wait, adds_up};

/// A span. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Id of the trace.
    pub trace: u128,
    /// Id of the span.
    pub id: u64,
    /// Id of the parent; `None` for a root.
    pub parent: Option<u64>,
    /// Name of the work.
    pub name: String,
    /// Start.
    pub began: u64,
    /// End.
    pub ended: u64,
    /// Whether the work failed.
    pub failed: bool,
    /// Trace and span of each linked span.
    pub links: Vec<(u128, u64)>,
}

/// What breaks a rule: the rule's number, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule, such as `T1`.
    pub rule: &'static str,
    /// What was found, in words.
    pub what: String,
}

impl Fault {
    fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Steps after which the change of a pod goes on, so that they end before it. A binding is none of them: its answer may come after the kubelet has seen the pod.
const BEFORE_THE_END: [&str; 9] =
    ["commit", "queue", "decide", "admit", "volumes", "pull", "sandbox", "start", "ready"];

/// T2: each of these lives has each of these steps, done without a failure.
#[must_use]
pub fn none_missing(spans: &[Span], lives: &[u128], steps: &[&str]) -> Vec<Fault> {
    let done = done(spans);
    let missing = |life: &u128| {
        let known = done.get(life);
        let lacks: Vec<&str> =
            steps.iter().copied().filter(|step| known.is_none_or(|known| !known.contains(step))).collect();
        (!lacks.is_empty()).then(|| Fault::new("T2", format!("{life:032x} has no {}", lacks.join(", "))))
    };
    lives.iter().filter_map(missing).collect()
}

/// T5: each of these lives has all of these steps or no span at all. At least one is whole and one absent, else nothing was shown.
#[must_use]
pub fn whole_or_absent(spans: &[Span], lives: &[u128], steps: &[&str]) -> Vec<Fault> {
    let present: BTreeSet<u128> = spans.iter().map(|span| span.trace).collect();
    let (whole, absent): (Vec<u128>, Vec<u128>) = lives.iter().copied().partition(|life| present.contains(life));
    let mut faults = none_missing(spans, &whole, steps);
    faults.iter_mut().for_each(|fault| fault.rule = "T5");
    if whole.is_empty() || absent.is_empty() {
        let (whole, absent) = (whole.len(), absent.len());
        faults.push(Fault::new("T5", format!("{whole} lives are present and {absent} absent: nothing was sampled")));
    }
    faults
}

/// T3.
#[must_use]
pub fn none_outlives(spans: &[Span]) -> Vec<Fault> {
    let by_id: BTreeMap<(u128, u64), &Span> = spans.iter().map(|span| ((span.trace, span.id), span)).collect();
    let mut faults = Vec::new();
    for span in spans {
        if span.ended < span.began {
            faults.push(Fault::new("T3", format!("{} of {:032x} ends before it begins", span.name, span.trace)));
        }
        let root = span.parent.and_then(|parent| by_id.get(&(span.trace, parent)));
        let root = root.filter(|_| BEFORE_THE_END.contains(&span.name.as_str()));
        let requests = span.links.iter().filter(|_| span.name == "commit").filter_map(|link| by_id.get(link));
        let requests = requests.filter(|linked| linked.trace != span.trace && linked.parent.is_none());
        // The root of another life is linked as its owner, and has begun before.
        let requests = requests.filter(|linked| !linked.name.ends_with(" create") && !linked.name.ends_with(" update"));
        for outer in root.into_iter().chain(requests) {
            if span.began < outer.began || span.ended > outer.ended {
                let (name, outer, trace) = (&span.name, &outer.name, span.trace);
                faults.push(Fault::new("T3", format!("{name} of {trace:032x} is not inside {outer}")));
            }
        }
    }
    faults
}

/// Returns the names of the steps of each trace that were done without a failure.
fn done(spans: &[Span]) -> BTreeMap<u128, BTreeSet<&str>> {
    let mut done: BTreeMap<u128, BTreeSet<&str>> = BTreeMap::new();
    for span in spans.iter().filter(|span| !span.failed) {
        done.entry(span.trace).or_default().insert(&span.name);
    }
    done
}
