//! Computes a DaemonSet's status (upstream `updateDaemonSetStatus`).

use super::placement::Placement;
use super::snapshot::Snapshot;
use crate::project::DaemonSetState;

/// Counts nodes by their pods. Of several pods on a node the first counts.
pub(super) fn count(snapshot: &Snapshot<'_>) -> DaemonSetState {
    let set = snapshot.set;
    let mut state =
        DaemonSetState { observed: set.meta.generation, collisions: set.value.status.collisions, ..Default::default() };
    for (node, placement) in &snapshot.nodes {
        let first = snapshot.on(node).first();
        if *placement != Placement::Runs {
            state.misscheduled += i64::from(first.is_some());
            continue;
        }
        state.desired += 1;
        if let Some(pod) = first {
            state.current += 1;
            state.ready += i64::from(pod.value.ready);
            state.available += i64::from(snapshot.is_available(pod));
            state.updated += i64::from(snapshot.is_updated(pod));
        }
    }
    state.unavailable = state.desired - state.available;
    state
}

/// Whether a status must be written in place of another. The count of collisions is written by itself.
pub(super) fn differs(old: DaemonSetState, new: DaemonSetState) -> bool {
    let DaemonSetState { observed, collisions, .. } = new;
    observed > old.observed || DaemonSetState { observed, collisions, ..old } != new
}
