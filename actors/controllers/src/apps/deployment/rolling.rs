//! The steps of a rollout from old templates to the new one (upstream `rolling.go`, `recreate.go`).

use std::collections::BTreeMap;

use super::snapshot::{Resize, Snapshot};

/// Returns the next step of a rolling update: scales the new set up, or else the old sets down.
pub(super) fn roll(snapshot: &Snapshot<'_>) -> Vec<Resize> {
    let wanted = snapshot.deployment.value.replicas;
    let Some(new) = snapshot.new else { return Vec::new() };
    let size = if new.value.replicas > wanted { wanted } else { snapshot.new_size() };
    if size != new.value.replicas {
        return snapshot.resize(new, size).into_iter().collect();
    }
    shrink(snapshot)
}

/// Scales the old sets down: unhealthy pods first, then as many as availability allows.
fn shrink(snapshot: &Snapshot<'_>) -> Vec<Resize> {
    let wanted = snapshot.deployment.value.replicas;
    if snapshot.old.iter().all(|set| set.value.replicas == 0) {
        return Vec::new();
    }
    let least = wanted - snapshot.unavailable;
    let pending = snapshot.new.map_or(0, |new| new.value.replicas - new.value.status.available);
    let mut most = snapshot.total() - least - pending;
    if most <= 0 {
        return Vec::new();
    }
    let mut sizes: BTreeMap<&str, i64> = snapshot.old.iter().map(|set| (set.meta.name(), set.value.replicas)).collect();
    for set in &snapshot.old {
        let unhealthy = (set.value.replicas - set.value.status.available).clamp(0, most.max(0));
        most -= unhealthy;
        sizes.entry(set.meta.name()).and_modify(|size| *size -= unhealthy);
    }
    let available: i64 = snapshot.all().map(|set| set.value.status.available).sum();
    let mut spare = (available - least).max(0);
    for set in &snapshot.old {
        sizes.entry(set.meta.name()).and_modify(|size| {
            let down = (*size).min(spare);
            spare -= down;
            *size -= down;
        });
    }
    let changed = |set: &&&_| {
        let set: &oarlock_informer::Item<crate::project::ReplicaSet> = set;
        sizes.get(set.meta.name()).is_some_and(|size| *size != set.value.replicas)
    };
    snapshot
        .old
        .iter()
        .filter(changed)
        .filter_map(|set| snapshot.resize(set, sizes.get(set.meta.name()).copied().unwrap_or(set.value.replicas)))
        .collect()
}

/// Whether no pod of an old template is left, so that strategy Recreate may start the new set.
pub(super) fn recreated(snapshot: &Snapshot<'_>, running: &dyn Fn(&str) -> bool) -> bool {
    snapshot.old.iter().all(|set| set.value.replicas == 0 && !running(set.meta.uid.as_str()))
}

/// Returns the next step of strategy Recreate.
pub(super) fn recreate(snapshot: &Snapshot<'_>, recreated: bool) -> Vec<Resize> {
    let old = snapshot.old.iter().filter(|set| set.value.replicas > 0);
    let down: Vec<Resize> = old.filter_map(|set| snapshot.resize(set, 0)).collect();
    if !down.is_empty() || !recreated {
        return down;
    }
    snapshot.new.and_then(|new| snapshot.resize(new, snapshot.deployment.value.replicas)).into_iter().collect()
}
