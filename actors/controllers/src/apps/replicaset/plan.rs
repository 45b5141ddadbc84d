//! Plans the pods that a ReplicaSet creates or deletes, and its status.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::{Status, Time};

use super::rank::{self, Related};
use crate::project::{Condition, PodView, ReplicaSet, ReplicaSetState, active, next_available};

/// The most pods that one reconcile creates or deletes (upstream `BurstReplicas`).
pub(super) const BURST: usize = 500;
const FAILURE: &str = "ReplicaFailure";

/// The pods to create or delete, and the status.
#[derive(Debug)]
pub(super) struct Plan {
    /// The number of pods to create.
    pub(super) create: usize,
    /// The pods to delete.
    pub(super) delete: Vec<Arc<Item<PodView>>>,
    /// The status to write.
    pub(super) status: ReplicaSetState,
    /// The time after which availability may change without any other change.
    pub(super) again: Option<Duration>,
}

/// Plans for a ReplicaSet and the pods it controls. `related` counts, per node, the pods of sibling sets; called only when pods must be deleted.
pub(super) fn plan(
    set: &Item<ReplicaSet>,
    pods: &[Arc<Item<PodView>>],
    now: Time,
    related: impl FnOnce() -> Related,
) -> Plan {
    let alive: Vec<&Arc<Item<PodView>>> = pods.iter().filter(|pod| active(pod)).collect();
    let wanted = usize::try_from(set.value.replicas).unwrap_or(0);
    let (create, delete) = if set.meta.deleting() {
        (0, Vec::new())
    } else if alive.len() <= wanted {
        ((wanted - alive.len()).min(BURST), Vec::new())
    } else {
        let surplus = (alive.len() - wanted).min(BURST);
        (0, rank::to_delete(&alive, surplus, &related(), now))
    };
    let again = next_available(alive.iter().map(|pod| &***pod), set.value.min_ready, now);
    Plan { create, delete, status: status(set, pods, &alive, now), again }
}

fn status(
    set: &Item<ReplicaSet>,
    pods: &[Arc<Item<PodView>>],
    alive: &[&Arc<Item<PodView>>],
    now: Time,
) -> ReplicaSetState {
    let count = |test: &dyn Fn(&Item<PodView>) -> bool| number(alive.iter().filter(|pod| test(pod)).count());
    let labels = &set.value.template_labels;
    ReplicaSetState {
        replicas: number(alive.len()),
        fully_labeled: count(&|pod| labels.iter().all(|(key, value)| pod.meta.label(key) == Some(value.as_str()))),
        ready: count(&|pod| pod.value.ready),
        available: count(&|pod| pod.value.available(set.value.min_ready, now)),
        terminating: Some(number(pods.iter().filter(|pod| pod.meta.deleting() && !pod.value.terminal()).count())),
        observed: set.meta.generation,
        conditions: set.value.status.conditions.clone(),
    }
}

impl Plan {
    /// Sets condition ReplicaFailure while writes fail, and removes the condition otherwise.
    pub(super) fn fail(&mut self, set: &ReplicaSet, failure: Option<&Status>, now: Time) {
        let conditions = &mut self.status.conditions;
        let stands = set.status.conditions.iter().any(|condition| condition.kind == FAILURE);
        match failure {
            Some(status) if !stands => {
                let reason = if self.delete.is_empty() { "FailedCreate" } else { "FailedDelete" };
                let mut condition = Condition::new(FAILURE, "True", reason, status.to_string(), now);
                condition.updated = None;
                conditions.push(condition);
            }
            None if stands => conditions.retain(|condition| condition.kind != FAILURE),
            _ => {}
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
