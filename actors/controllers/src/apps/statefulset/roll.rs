//! Decides which pods a rolling update replaces next (upstream `updateStatefulSet`, `updateStatefulSetAfterInvariantEstablished`).

use oarlock_seeded_bug::seeded_bug;

use super::members::{self, Members, Pod, REVISION};
use super::snapshot::Snapshot;
use crate::project::{Amount, Replacement};

/// Returns the pods of an old revision to delete now, highest ordinal first; none below the partition.
pub(super) fn outdated<'a>(snapshot: &Snapshot<'_>, members: &'a Members) -> Vec<&'a Pod> {
    let set = &snapshot.set.value;
    let Replacement::Rolling { partition, unavailable } = &set.replacement else { return Vec::new() };
    let lowest = set.start.saturating_add(partition.unwrap_or(0));
    if snapshot.counts_unavailable {
        return within(snapshot, members, lowest, unavailable);
    }
    one(snapshot, members, lowest).into_iter().collect()
}

/// Whether a pod has another revision than the set's template and is neither being deleted nor to be deleted because it has ended.
fn is_outdated(snapshot: &Snapshot<'_>, pod: &Pod) -> bool {
    pod.meta.label(REVISION) != Some(snapshot.names.update.as_str()) && !pod.meta.deleting() && !pod.value.terminal()
}

/// Returns as many outdated pods as may become unavailable. The unavailable pods of all ordinals count, also of those below the partition.
fn within<'a>(snapshot: &Snapshot<'_>, members: &'a Members, lowest: i64, unavailable: &Amount) -> Vec<&'a Pod> {
    let wanted = snapshot.set.value.replicas;
    let most = unavailable.of(wanted, false).max(1);
    let available = members.wanted.values().filter(|pod| snapshot.is_available(pod)).count();
    let missing = wanted.saturating_sub(i64::try_from(available).unwrap_or(i64::MAX));
    let room = if seeded_bug!("roll_ignores_the_unavailable") { most } else { most.saturating_sub(missing) };
    let pods = members.wanted.range(lowest..).rev().map(|(_, pod)| pod);
    pods.filter(|pod| is_outdated(snapshot, pod)).take(usize::try_from(room).unwrap_or(0)).collect()
}

/// Returns the highest outdated pod, unless a pod above it is not available.
fn one<'a>(snapshot: &Snapshot<'_>, members: &'a Members, lowest: i64) -> Option<&'a Pod> {
    for ordinal in (lowest..members::ordinals(&snapshot.set.value).end).rev() {
        let pod = members.wanted.get(&ordinal)?;
        if is_outdated(snapshot, pod) {
            return Some(pod);
        }
        if !snapshot.is_available(pod) {
            return None;
        }
    }
    None
}
