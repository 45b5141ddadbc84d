//! Which pods of a Job go first: those that have come least far (upstream `controller.ActivePods`).

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use oarlock_informer::Item;
use oarlock_meta::Time;

use super::look::{Look, Pod};
use super::policy::valid_index;
use crate::project::{Phase, PodView};

/// At least `count` active pods to delete. Those without an index of the Job's go in any case, and all but one of each index.
pub(super) fn to_delete<'a>(look: &Look<'a>, count: usize) -> Vec<&'a Pod> {
    let mut ranked = look.active.clone();
    ranked.sort_by(|a, b| order(a, b));
    let mut gone = Vec::new();
    if look.job.value.indexed() {
        let (mut kept, mut single) = (BTreeSet::new(), Vec::new());
        // From the end, where those are that have come farthest.
        for pod in ranked.into_iter().rev() {
            let first = valid_index(&look.job.value, pod).is_some_and(|index| kept.insert(index));
            if first { single.push(pod) } else { gone.push(pod) }
        }
        single.reverse();
        ranked = single;
    }
    let more = count.saturating_sub(gone.len());
    gone.extend(ranked.into_iter().take(more));
    gone
}

/// `Less` goes first.
fn order(a: &Item<PodView>, b: &Item<PodView>) -> Ordering {
    let (x, y) = (&a.value, &b.value);
    // Unassigned, not running, not ready.
    (Reverse(x.node.is_empty()), phase(x.phase), x.ready)
        .cmp(&(Reverse(y.node.is_empty()), phase(y.phase), y.ready))
        .then_with(|| if x.ready { age(x.ready_since).cmp(&age(y.ready_since)) } else { Ordering::Equal })
        .then_with(|| y.restarts.cmp(&x.restarts))
        .then_with(|| age(a.meta.created).cmp(&age(b.meta.created)))
}

/// The latest is the youngest, and what has no time is younger still.
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
