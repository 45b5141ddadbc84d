//! Computes the conditions of a namespace that is being deleted.

use std::fmt::Write as _;

use oarlock_meta::{Status, Time};
use oarlock_schema::Str;

use crate::project::{Condition, condition};

/// The remaining objects of one resource in a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Remaining {
    /// Plural and group, separated by a dot even for the core group, as in upstream's texts.
    pub(super) resource: String,
    /// The number of remaining objects.
    pub(super) count: usize,
    /// The finalizers of all remaining objects, each once per object.
    pub(super) finalizers: Vec<Str>,
    /// Why the objects could not be deleted or counted.
    pub(super) error: Option<Status>,
}

impl Remaining {
    /// Whether certainly no object is left.
    pub(super) fn nothing(&self) -> bool {
        self.count == 0 && self.error.is_none()
    }
}

/// Returns the conditions after one round of deletion (upstream `namespaceConditionUpdater`).
pub(super) fn conditions(old: &[Condition], found: &[Remaining], now: Time) -> Vec<Condition> {
    let mut errors: Vec<String> = found
        .iter()
        .filter_map(|left| left.error.as_ref().map(|status| format!("{}: {}", left.resource, status.message)))
        .collect();
    errors.sort();
    let failed = (!errors.is_empty())
        .then(|| format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", ")));
    let remaining = remaining(found);
    let finalizers = finalizers(found);
    let table: [(&str, &str, &str, &str, Option<String>); 5] = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "DiscoveryFailed",
            "All resources successfully discovered",
            None,
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "GroupVersionParsingFailed",
            "All legacy kube types successfully parsed",
            None,
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "ContentDeletionFailed",
            "All content successfully deleted, may be waiting on finalization",
            failed,
        ),
        (
            "NamespaceContentRemaining",
            "ContentRemoved",
            "SomeResourcesRemain",
            "All content successfully removed",
            remaining,
        ),
        (
            "NamespaceFinalizersRemaining",
            "ContentHasNoFinalizers",
            "SomeFinalizersRemain",
            "All content-preserving finalizers finished",
            finalizers,
        ),
    ];
    let mut all: Vec<Condition> = old.iter().filter(|one| table.iter().all(|row| one.kind != row.0)).cloned().collect();
    for (kind, good, bad, fine, problem) in table {
        let next = match problem {
            None => Condition::new(kind, "False", good, fine, now),
            Some(problem) => Condition::new(kind, "True", bad, problem, now),
        };
        all.push(keep(old, next));
    }
    all
}

/// Returns the old condition if `next` is equal, otherwise `next`, with the old transition time if the status is unchanged.
fn keep(old: &[Condition], mut next: Condition) -> Condition {
    next.updated = None;
    if let Some(standing) = condition(old, &next.kind)
        && standing.status == next.status
    {
        next.transition = standing.transition;
    }
    next
}

fn remaining(found: &[Remaining]) -> Option<String> {
    let mut parts: Vec<String> = found
        .iter()
        .filter(|left| left.count > 0)
        .map(|left| format!("{} has {} resource instances", left.resource, left.count))
        .collect();
    parts.sort();
    (!parts.is_empty()).then(|| format!("Some resources are remaining: {}", parts.join(", ")))
}

fn finalizers(found: &[Remaining]) -> Option<String> {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for name in found.iter().flat_map(|left| &left.finalizers) {
        *counts.entry(name).or_insert(0) += 1;
    }
    let mut text = String::new();
    for (name, count) in &counts {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{name} in {count} resource instances");
    }
    (!text.is_empty()).then(|| format!("Some content in the namespace has finalizers remaining: {text}"))
}
