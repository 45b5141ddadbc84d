//! The order in which a Job deletes active pods: those with the least progress first (upstream `controller.ActivePods`).

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use oarlock_informer::Item;
use oarlock_meta::Time;

use super::policy::valid_index;
use super::snapshot::{Pod, Snapshot};
use crate::project::{Phase, PodView};

/// Returns at least `count` active pods to delete: in any case the pods without a valid index, and all but one pod of each index.
pub(super) fn to_delete<'a>(snapshot: &Snapshot<'a>, count: usize) -> Vec<&'a Pod> {
    let mut ranked = snapshot.active.clone();
    ranked.sort_by(|a, b| order(a, b));
    let mut gone = Vec::new();
    if snapshot.job.value.indexed() {
        let (mut kept, mut single) = (BTreeSet::new(), Vec::new());
        // From the end, so that the pod with the most progress keeps the index.
        for pod in ranked.into_iter().rev() {
            let first = valid_index(&snapshot.job.value, pod).is_some_and(|index| kept.insert(index));
            if first { single.push(pod) } else { gone.push(pod) }
        }
        single.reverse();
        ranked = single;
    }
    let more = count.saturating_sub(gone.len());
    gone.extend(ranked.into_iter().take(more));
    gone
}

/// Compares two pods; the lesser is deleted first.
fn order(a: &Item<PodView>, b: &Item<PodView>) -> Ordering {
    let (x, y) = (&a.value, &b.value);
    // Unassigned, not running, not ready.
    (Reverse(x.node.is_empty()), phase(x.phase), x.ready)
        .cmp(&(Reverse(y.node.is_empty()), phase(y.phase), y.ready))
        .then_with(|| if x.ready { age(x.ready_since).cmp(&age(y.ready_since)) } else { Ordering::Equal })
        .then_with(|| y.restarts.cmp(&x.restarts))
        .then_with(|| age(a.meta.created).cmp(&age(b.meta.created)))
}

/// Orders times from the latest to the earliest; a pod without a time comes first.
fn age(since: Option<Time>) -> Reverse<i64> {
    Reverse(since.map_or(i64::MAX, Time::unix))
}

fn phase(phase: Phase) -> u8 {
    match phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        _ => 2,
    }
}
