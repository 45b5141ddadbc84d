//! Arranges the spans of an object's newest change as a tree.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_mesh::otlp::trace::v1::Span;
use oarlock_telemetry::traces::Change;

use super::plain::plain;
use super::spans;

/// Deepest level that is indented; deeper spans stand on this level.
const MAX_DEPTH: usize = 12;
/// How many earlier changes are told apart from spans whose parent is missing.
const EARLIER_CHANGES: i64 = 100;
/// Nanoseconds of the unit of `metadata.creationTimestamp`.
const SECOND: u64 = 1_000_000_000;

/// An object whose life is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// Kind and name, such as `pod/web`.
    pub(super) title: String,
    /// Name of the root if it is not recorded yet, such as `pod create`.
    pub(super) change: String,
    /// `metadata.uid`.
    pub(super) uid: String,
    /// `metadata.generation`.
    pub(super) generation: i64,
    /// `metadata.creationTimestamp` in nanoseconds since 1970.
    pub(super) created: u64,
}

/// One line of a waterfall. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Level in the tree; 0 is the root.
    pub(super) depth: usize,
    /// Name of the step.
    pub(super) name: String,
    /// Container of the step, if it concerns one.
    pub(super) container: Option<String>,
    /// Start.
    pub(super) began: u64,
    /// End; `None` for a change that has not ended.
    pub(super) ended: Option<u64>,
    /// Why the step failed.
    pub(super) error: Option<String>,
}

/// Returns the rows of the object's newest change in the order of a walk through the tree, children by their start. The first row is the change itself, whether or not its root is recorded.
///
/// A span whose parent is missing stands below the root. The root's start comes from `metadata.creationTimestamp`, which has whole seconds; it is corrected to the first span of that second.
pub(super) fn rows(subject: &Subject, spans: &[Span]) -> Vec<Row> {
    let id = |generation| Change::new(&subject.uid, generation).context().span_id().to_bytes().to_vec();
    let root_id = id(subject.generation);
    let first = subject.generation.saturating_sub(EARLIER_CHANGES).max(0);
    let earlier: BTreeSet<Vec<u8>> = (first..subject.generation).map(id).collect();
    let known: BTreeSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    let mut children: BTreeMap<&[u8], Vec<&Span>> = BTreeMap::new();
    for span in spans.iter().filter(|span| !span.parent_span_id.is_empty()) {
        let parent = span.parent_span_id.as_slice();
        let orphan = !known.contains(parent) && !earlier.contains(parent);
        children.entry(if orphan { &root_id } else { parent }).or_default().push(span);
    }
    for siblings in children.values_mut() {
        // The last one is taken first.
        siblings.sort_by_key(|span| std::cmp::Reverse((span.start_time_unix_nano, span.end_time_unix_nano)));
    }
    let mut stack: Vec<(usize, &Span)> = Vec::new();
    let mut below = |id: &[u8], depth: usize, stack: &mut Vec<_>| {
        stack.extend(children.remove(id).into_iter().flatten().map(|span| (depth, span)));
    };
    below(&root_id, 1, &mut stack);
    let earliest = stack.iter().map(|(_, span)| span.start_time_unix_nano).min();
    let root = spans.iter().find(|span| span.span_id == root_id);
    let mut rows = vec![root_row(subject, root, earliest)];
    while let Some((depth, span)) = stack.pop() {
        rows.push(row(depth, span));
        below(&span.span_id, (depth + 1).min(MAX_DEPTH), &mut stack);
    }
    rows
}

fn root_row(subject: &Subject, root: Option<&Span>, earliest: Option<u64>) -> Row {
    let recorded = root.map(|span| row(0, span));
    let mut row = recorded.unwrap_or_else(|| Row {
        name: subject.change.clone(),
        began: if subject.generation <= 1 { subject.created } else { earliest.unwrap_or(subject.created) },
        ..Row::default()
    });
    if let Some(earliest) = earliest.filter(|earliest| *earliest < row.began.saturating_add(SECOND)) {
        row.began = earliest;
    }
    row
}

fn row(depth: usize, span: &Span) -> Row {
    Row {
        depth,
        name: plain(&span.name),
        container: spans::attribute(span, "k8s.container.name").map(plain),
        began: span.start_time_unix_nano,
        ended: Some(span.end_time_unix_nano),
        error: spans::error(span),
    }
}
