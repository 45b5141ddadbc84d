//! T1: spans are connected.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fault, Span};

/// T1. `traces` are those that must be one graph by the links between their spans, in either direction and over traces in between. `going_on` has trace and id of the roots of changes that
/// have not ended, which nobody has recorded yet.
#[must_use]
pub fn connected(spans: &[Span], traces: &[u128], going_on: &[(u128, u64)]) -> Vec<Fault> {
    let mut faults = orphans(spans, going_on);
    faults.extend(twins(spans));
    let mut groups = Groups::default();
    for span in spans {
        span.links.iter().for_each(|(trace, _)| groups.join(span.trace, *trace));
    }
    let apart: BTreeSet<u128> = traces.iter().map(|trace| groups.first(*trace)).collect();
    if apart.len() > 1 {
        faults.push(Fault::new("T1", format!("{} graphs: no link joins them", apart.len())));
    }
    let present: BTreeSet<u128> = spans.iter().map(|span| span.trace).collect();
    let absent = traces.iter().filter(|trace| !present.contains(trace));
    faults.extend(absent.map(|trace| Fault::new("T1", format!("{trace:032x} has no span"))));
    faults
}

/// Spans whose parent is not there.
fn orphans(spans: &[Span], going_on: &[(u128, u64)]) -> Vec<Fault> {
    let ended = spans.iter().map(|span| (span.trace, span.id));
    let ids: BTreeSet<(u128, u64)> = ended.chain(going_on.iter().copied()).collect();
    let lost = |span: &&Span| span.parent.is_some_and(|parent| !ids.contains(&(span.trace, parent)));
    let say = |span: &Span| Fault::new("T1", format!("{} of {:032x} has no parent", span.name, span.trace));
    spans.iter().filter(lost).map(say).collect()
}

/// Ids that name two spans. A root may be recorded again by the next owner of the work, as the same one.
fn twins(spans: &[Span]) -> Vec<Fault> {
    let mut first: BTreeMap<(u128, u64), &Span> = BTreeMap::new();
    let mut faults = Vec::new();
    for span in spans {
        let known = *first.entry((span.trace, span.id)).or_insert(span);
        let same_root = known.parent.is_none() && span.parent.is_none() && known.name == span.name;
        if !std::ptr::eq(known, span) && !same_root {
            faults.push(Fault::new("T1", format!("{} and {} have one id", known.name, span.name)));
        }
    }
    faults
}

/// Traces that are joined, each with another of its group.
#[derive(Default)]
struct Groups(BTreeMap<u128, u128>);

impl Groups {
    /// Returns the trace that stands for the group of a trace.
    fn first(&self, mut trace: u128) -> u128 {
        while let Some(next) = self.0.get(&trace) {
            trace = *next;
        }
        trace
    }

    fn join(&mut self, one: u128, other: u128) {
        let (one, other) = (self.first(one), self.first(other));
        if one != other {
            self.0.insert(one, other);
        }
    }
}
