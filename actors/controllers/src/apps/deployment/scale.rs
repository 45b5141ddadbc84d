//! Scales a Deployment, even amid a rollout: every ReplicaSet takes its proportional share (upstream `sync.go`, `scale`).

use oarlock_informer::Item;

use super::annotations::{self, DESIRED, MAX};
use super::snapshot::{Resize, Sets, Snapshot};
use crate::project::{ReplicaSet, Strategy};

/// Whether the Deployment's size has changed since the active sets were scaled (upstream `isScalingEvent`).
pub(super) fn wanted(snapshot: &Snapshot<'_>) -> bool {
    let size = snapshot.deployment.value.replicas;
    snapshot
        .all()
        .filter(|set| set.value.replicas > 0)
        .any(|set| annotations::number(&set.meta, DESIRED).is_some_and(|desired| desired != size))
}

/// Returns the ReplicaSets to resize.
pub(super) fn scale(snapshot: &Snapshot<'_>) -> Vec<Resize> {
    let deployment = &snapshot.deployment.value;
    if let Some(only) = active_or_latest(snapshot) {
        return snapshot.resize(only, deployment.replicas).into_iter().collect();
    }
    if snapshot.new.is_some_and(|new| saturated(snapshot, new)) {
        let active = snapshot.old.iter().filter(|set| set.value.replicas > 0);
        return active.filter_map(|set| snapshot.resize(set, 0)).collect();
    }
    if deployment.strategy == Strategy::Recreate {
        return Vec::new();
    }
    let allowed = if deployment.replicas > 0 { deployment.replicas.saturating_add(snapshot.surge) } else { 0 };
    proportions(snapshot, allowed)
}

/// Returns the only active set, or the newest set if none is active.
fn active_or_latest<'a>(snapshot: &Snapshot<'a>) -> Option<&'a Item<ReplicaSet>> {
    let mut active = snapshot.all().filter(|set| set.value.replicas > 0);
    match (active.next(), active.next()) {
        (None, _) => snapshot.new.or_else(|| snapshot.old.last().copied()),
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Whether the new set alone has all wanted pods of the Deployment, available.
fn saturated(snapshot: &Snapshot<'_>, new: &Item<ReplicaSet>) -> bool {
    let size = snapshot.deployment.value.replicas;
    new.value.replicas == size
        && annotations::number(&new.meta, DESIRED) == Some(size)
        && new.value.status.available == size
}

fn proportions(snapshot: &Snapshot<'_>, allowed: i64) -> Vec<Resize> {
    let mut active: Sets<'_> = snapshot.all().filter(|set| set.value.replicas > 0).collect();
    let total: i64 = active.iter().map(|set| set.value.replicas).sum();
    let change = allowed - total;
    // Large ones first; of equal size the newer when growing, the older when shrinking.
    active.sort_by(|a, b| {
        let older = (a.meta.created, a.meta.name()).cmp(&(b.meta.created, b.meta.name()));
        b.value.replicas.cmp(&a.value.replicas).then(if change > 0 { older.reverse() } else { older })
    });
    let mut left = change;
    let mut sizes: Vec<(&Item<ReplicaSet>, i64)> = Vec::new();
    for set in active {
        let share = if left == 0 { 0 } else { fraction(snapshot, set) };
        let share = if change > 0 { share.min(left) } else { share.max(left) };
        left -= share;
        sizes.push((set, set.value.replicas + share));
    }
    if let Some((_, largest)) = sizes.first_mut() {
        *largest = (*largest + left).max(0);
    }
    sizes.into_iter().filter_map(|(set, size)| snapshot.resize(set, size)).collect()
}

/// Returns by how many pods a set grows (or shrinks) to keep its proportion of the whole, rounded (upstream `getReplicaSetFraction`).
fn fraction(snapshot: &Snapshot<'_>, set: &Item<ReplicaSet>) -> i64 {
    let size = set.value.replicas;
    let deployment = &snapshot.deployment.value;
    if deployment.replicas == 0 {
        return -size;
    }
    let before = annotations::number(&set.meta, MAX).unwrap_or(deployment.status.replicas);
    if before <= 0 {
        return 0;
    }
    let after = deployment.replicas.saturating_add(snapshot.surge);
    let scaled = (2 * size.saturating_mul(after) + before).div_euclid(2 * before);
    scaled - size
}
