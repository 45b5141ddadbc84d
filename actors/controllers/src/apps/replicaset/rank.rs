//! The order in which a ReplicaSet deletes pods (upstream `controller.ActivePodsWithRanks`).

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Time;
use oarlock_schema::Str;

use crate::project::{Phase, PodView};

/// The number of active pods of a ReplicaSet and its siblings, per node. Pods on nodes with several are deleted first.
pub(super) type Related = BTreeMap<Str, usize>;

/// Returns the `count` pods to delete.
pub(super) fn to_delete(
    alive: &[&Arc<Item<PodView>>],
    count: usize,
    related: &Related,
    now: Time,
) -> Vec<Arc<Item<PodView>>> {
    let mut ranked: Vec<&Arc<Item<PodView>>> = alive.to_vec();
    if count < ranked.len() {
        let rank = |pod: &Item<PodView>| related.get(&pod.value.node).copied().unwrap_or(0);
        ranked.sort_by(|a, b| order((a, rank(a)), (b, rank(b)), now));
    }
    ranked.into_iter().take(count).cloned().collect()
}

/// Compares two pods; the lesser is deleted first.
fn order((a, rank_a): (&Item<PodView>, usize), (b, rank_b): (&Item<PodView>, usize), now: Time) -> Ordering {
    let (x, y) = (&a.value, &b.value);
    // Unassigned, not running, not ready, cheap, crowded: in this order.
    (Reverse(x.node.is_empty()), phase(x.phase), x.ready, x.deletion_cost, Reverse(rank_a))
        .cmp(&(Reverse(y.node.is_empty()), phase(y.phase), y.ready, y.deletion_cost, Reverse(rank_b)))
        .then_with(|| if x.ready { age(x.ready_since, now).cmp(&age(y.ready_since, now)) } else { Ordering::Equal })
        .then_with(|| y.restarts.cmp(&x.restarts))
        .then_with(|| age(a.meta.created, now).cmp(&age(b.meta.created, now)))
        .then_with(|| a.meta.uid.cmp(&b.meta.uid))
}

fn phase(phase: Phase) -> u8 {
    match phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        _ => 2,
    }
}

/// Returns the age in powers of two, so that among pods of about the same age the random uid decides (upstream `LogarithmicScaleDown`). A pod without a
/// time counts as new.
fn age(since: Option<Time>, now: Time) -> u32 {
    let seconds = since.map_or(0, |since| now.unix().saturating_sub(since.unix()));
    u64::try_from(seconds).unwrap_or(0).checked_ilog2().map_or(0, |bits| bits + 1)
}
