//! The annotations that record the place of ReplicaSets in the history of their Deployment.

use std::collections::BTreeMap;

use oarlock_informer::{Item, ObjMeta};
use oarlock_schema::Str;

use crate::project::{Deployment, ReplicaSet};

/// The revision in the history, on ReplicaSets and on the Deployment (upstream `RevisionAnnotation`).
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a ReplicaSet that a rollback made the newest again.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's replicas when the set was scaled last.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The Deployment's replicas plus the surge when the set was scaled last.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// The annotations that are not copied from Deployments to ReplicaSets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// Reads a number from an annotation.
pub(super) fn number(meta: &ObjMeta, name: &str) -> Option<i64> {
    meta.annotation(name)?.parse().ok()
}

/// Returns the revision of a ReplicaSet, 0 for none.
pub(super) fn revision(set: &Item<ReplicaSet>) -> i64 {
    number(&set.meta, REVISION).unwrap_or(0)
}

/// Returns the annotations that the ReplicaSet of the current template lacks (upstream `SetNewReplicaSetAnnotations`).
pub(super) fn for_set(
    deployment: &Item<Deployment>,
    set: Option<&Item<ReplicaSet>>,
    revision: i64,
) -> BTreeMap<Str, Str> {
    let has = |name: &str| set.and_then(|set| set.meta.annotation(name));
    let mut missing: BTreeMap<Str, Str> = deployment
        .meta
        .annotations
        .iter()
        .filter(|(name, value)| !OWN.contains(&name.as_str()) && has(name) != Some(value))
        .cloned()
        .collect();
    let old = has(REVISION).and_then(|text| text.parse::<i64>().ok());
    if old.unwrap_or(0) < revision {
        missing.insert(REVISION.into(), revision.to_string().into());
        if let Some(old) = old.filter(|old| *old > 0) {
            let before = has(HISTORY).unwrap_or("");
            let history = if before.is_empty() { old.to_string() } else { format!("{before},{old}") };
            missing.insert(HISTORY.into(), history.into());
        }
    }
    missing
}

/// Returns the annotations with the Deployment's size for which a ReplicaSet is scaled, if the set lacks them.
pub(super) fn for_size(set: Option<&Item<ReplicaSet>>, desired: i64, surge: i64) -> BTreeMap<Str, Str> {
    [(DESIRED, desired), (MAX, desired.saturating_add(surge))]
        .into_iter()
        .filter(|(name, count)| set.and_then(|set| number(&set.meta, name)) != Some(*count))
        .map(|(name, count)| (name.into(), count.to_string().into()))
        .collect()
}
