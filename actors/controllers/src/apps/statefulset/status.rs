//! Computes a StatefulSet's status (upstream `computeReplicaStatus`, `completeRollingUpdate`, `inconsistentStatus`).

use oarlock_informer::Item;

use super::members::{REVISION, runs_ready};
use super::snapshot::Snapshot;
use crate::project::{PodView, Replacement, StatefulSet, StatefulSetState};

/// Counts the pods of a set.
pub(super) fn count(snapshot: &Snapshot<'_>) -> StatefulSetState {
    let count = |test: &dyn Fn(&Item<PodView>) -> bool| {
        i64::try_from(snapshot.pods.iter().filter(|pod| test(pod)).count()).unwrap_or(i64::MAX)
    };
    let has = |pod: &Item<PodView>, revision: &str| !pod.meta.deleting() && pod.meta.label(REVISION) == Some(revision);
    let seconds = snapshot.set.value.min_ready;
    StatefulSetState {
        observed: snapshot.set.meta.generation,
        replicas: count(&|_| true),
        ready: count(&|pod| runs_ready(&pod.value)),
        available: count(&|pod| runs_ready(&pod.value) && pod.value.available(seconds, snapshot.now)),
        current: count(&|pod| has(pod, &snapshot.names.current)),
        updated: count(&|pod| has(pod, &snapshot.names.update)),
        current_revision: snapshot.names.current.clone(),
        update_revision: snapshot.names.update.clone(),
        collisions: Some(snapshot.names.collisions),
    }
}

/// Enters a complete rolling update: the update revision becomes the current one.
pub(super) fn complete(status: &mut StatefulSetState, set: &StatefulSet) {
    let wanted = set.replicas;
    let is_rolling = matches!(set.replacement, Replacement::Rolling { .. });
    if is_rolling && [status.updated, status.ready, status.replicas] == [wanted; 3] {
        status.current = status.updated;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// Whether a status must be written in place of another. The count of collisions changes only together with a revision.
pub(super) fn differs(old: &StatefulSetState, new: &StatefulSetState) -> bool {
    new.observed > old.observed
        || StatefulSetState { observed: new.observed, collisions: new.collisions, ..old.clone() } != *new
}
