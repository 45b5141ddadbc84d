//! Plans the pods and claims that a StatefulSet creates, changes and deletes (upstream `updateStatefulSet`).
//!
//! The plan has three parts, of which a later one is only begun when nothing in the earlier ones must be waited for: the wanted pods, the surplus pods,
//! and the pods of an old revision. Parallel sets wait for nothing.

use std::time::Duration;

use super::claims::{self, ClaimWork};
use super::members::{self, Members, POD_NAME, Pod};
use super::snapshot::Snapshot;
use super::{roll, status};
use crate::project::{Phase, Replacement, StatefulSetState, next_available};

/// The most actions of one part of a plan; the next reconcile takes those that are left.
pub(super) const BURST: usize = 500;

/// A revision of a StatefulSet that a new pod can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodRevision {
    /// The current revision: the template before the last change.
    Current,
    /// The update revision: the template that the set has.
    Update,
}

/// A change of a pod or of its claims.
#[derive(Debug)]
pub(super) enum Action {
    /// Creates a pod after its missing claims.
    Create { ordinal: i64, revision: PodRevision, claims: ClaimWork },
    /// Creates the missing claims of a pod, and changes the owners of its claims.
    Claims { ordinal: i64, pod: Pod, claims: ClaimWork },
    /// Gives a pod the labels and the volumes that its ordinal must have, and its claims their owners.
    Repair { ordinal: i64, pod: Pod, identity: bool, storage: bool, claims: ClaimWork },
    /// Deletes a pod. `replaces_current` says that the pod has the current revision and is replaced by one of the update revision.
    Delete { pod: Pod, replaces_current: bool },
}

/// The changes of a StatefulSet's pods and claims, and the status.
#[derive(Debug)]
pub(super) struct Plan {
    /// The stages, one after the other. The actions of a stage are taken at once; no stage follows a stage with a failed action.
    pub(super) stages: Vec<Vec<Action>>,
    /// The status to write, before pods were replaced and before a complete update was entered.
    pub(super) status: StatefulSetState,
    /// The time after which availability may change without any other change.
    pub(super) again: Option<Duration>,
}

/// The actions of one part of the plan, and whether the next part follows.
type Part = (Vec<Action>, bool);

/// Plans for a StatefulSet. Of a set that is being deleted only the status is planned.
pub(super) fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let again = next_available(snapshot.pods.iter().map(|pod| &**pod), snapshot.set.value.min_ready, snapshot.now);
    let mut plan = Plan { stages: Vec::new(), status: status::count(snapshot), again };
    if snapshot.set.meta.deleting() {
        return plan;
    }
    let members = Members::of(snapshot.set, snapshot.pods);
    let parts: [fn(&Snapshot<'_>, &Members) -> Part; 4] = [wanted, surplus_claims, surplus, replaced];
    for part in parts {
        let (mut actions, follows) = part(snapshot, &members);
        let is_cut = actions.len() > BURST;
        actions.truncate(BURST);
        if snapshot.is_ordered() {
            plan.stages.extend(actions.into_iter().map(|action| vec![action]));
        } else if !actions.is_empty() {
            plan.stages.push(actions);
        }
        if is_cut || (snapshot.is_ordered() && !follows) {
            break;
        }
    }
    plan
}

/// Plans for the wanted ordinals, lowest first. An ordered set stops at the first ordinal whose pod is not available.
fn wanted(snapshot: &Snapshot<'_>, members: &Members) -> Part {
    let set = &snapshot.set.value;
    let most = if snapshot.is_ordered() { 1 } else { BURST };
    let missing = members::ordinals(set).filter(|ordinal| !members.wanted.contains_key(ordinal)).take(most);
    let mut ordinals: Vec<i64> = missing.chain(members.wanted.keys().copied()).collect();
    ordinals.sort_unstable();
    let mut actions = Vec::new();
    for ordinal in ordinals {
        let goes_on = match members.wanted.get(&ordinal) {
            Some(pod) => keep(snapshot, ordinal, pod, &mut actions),
            None => {
                actions.extend(create(snapshot, ordinal));
                false
            }
        };
        if snapshot.is_ordered() && !goes_on {
            return (actions, false);
        }
    }
    (actions, true)
}

/// Plans to create the pod of an ordinal, unless a claim still belongs to an earlier pod of the name and is about to be deleted with it.
fn create(snapshot: &Snapshot<'_>, ordinal: i64) -> Option<Action> {
    if claims::is_stale(snapshot, ordinal) {
        return None;
    }
    let claims = ClaimWork::complete(snapshot, ordinal, None);
    Some(Action::Create { ordinal, revision: revision_of(snapshot, ordinal), claims })
}

/// Returns the revision of a new pod: below the partition the current one. Without a partition the pods that have the current revision keep it (upstream
/// `newVersionedStatefulSetPod`).
fn revision_of(snapshot: &Snapshot<'_>, ordinal: i64) -> PodRevision {
    let set = &snapshot.set.value;
    let kept = match set.replacement {
        Replacement::OnDelete => 0,
        Replacement::Rolling { partition: Some(partition), .. } => partition,
        Replacement::Rolling { partition: None, .. } => set.status.current,
    };
    if ordinal < set.start.saturating_add(kept) { PodRevision::Current } else { PodRevision::Update }
}

/// Plans for a pod of a wanted ordinal; returns whether an ordered set goes on to the next ordinal.
fn keep(snapshot: &Snapshot<'_>, ordinal: i64, pod: &Pod, actions: &mut Vec<Action>) -> bool {
    if pod.value.terminal() {
        // The next pod of the ordinal is created when the name is free.
        if !pod.meta.deleting() {
            actions.push(Action::Delete { pod: pod.clone(), replaces_current: false });
        }
        return false;
    }
    let is_pending = pod.value.phase == Phase::Pending;
    if is_pending {
        let claims = ClaimWork::complete(snapshot, ordinal, Some(pod));
        if !claims.is_empty() {
            actions.push(Action::Claims { ordinal, pod: pod.clone(), claims });
        }
    }
    if snapshot.is_ordered() && !(members::runs_ready(&pod.value) && snapshot.is_available(pod)) {
        return false;
    }
    let identity = pod.meta.label(POD_NAME) != Some(pod.meta.name());
    let storage = !claims::are_volumes_of(snapshot, ordinal, pod);
    let claims = match (is_pending, storage) {
        (true, _) => ClaimWork::default(),
        (false, true) => ClaimWork::complete(snapshot, ordinal, Some(pod)),
        (false, false) => ClaimWork::owners(snapshot, ordinal, Some(pod), false),
    };
    if identity || storage || claims.changes_owners() {
        actions.push(Action::Repair { ordinal, pod: pod.clone(), identity, storage, claims });
    }
    true
}

/// Plans the owners of the claims of surplus pods: such a claim is deleted with its pod if the set wants this.
fn surplus_claims(snapshot: &Snapshot<'_>, members: &Members) -> Part {
    let mut actions = Vec::new();
    for (ordinal, pod) in members.surplus.iter().rev() {
        let claims = ClaimWork::owners(snapshot, *ordinal, Some(pod), true);
        if claims.changes_owners() {
            actions.push(Action::Claims { ordinal: *ordinal, pod: pod.clone(), claims });
        }
    }
    (actions, true)
}

/// Plans to delete surplus pods, highest ordinal first. An ordered set deletes one at a time, and none while another pod than the lowest broken one is
/// not available (upstream `processCondemned`).
fn surplus(snapshot: &Snapshot<'_>, members: &Members) -> Part {
    let lowest_broken =
        members.surplus.iter().find(|(_, pod)| !snapshot.is_available(pod)).map(|(ordinal, _)| *ordinal);
    let mut actions = Vec::new();
    for (ordinal, pod) in members.surplus.iter().rev() {
        if !pod.meta.deleting() {
            let is_healthy = members::runs_ready(&pod.value) && snapshot.is_available(pod);
            if snapshot.is_ordered() && !is_healthy && lowest_broken != Some(*ordinal) {
                return (actions, false);
            }
            actions.push(Action::Delete { pod: pod.clone(), replaces_current: false });
        }
        if snapshot.is_ordered() {
            return (actions, false);
        }
    }
    (actions, true)
}

/// Plans to replace pods of an old revision.
fn replaced(snapshot: &Snapshot<'_>, members: &Members) -> Part {
    let delete = |pod: &Pod| {
        let replaces_current = pod.meta.label(members::REVISION) == Some(snapshot.names.current.as_str());
        Action::Delete { pod: pod.clone(), replaces_current }
    };
    (roll::outdated(snapshot, members).into_iter().map(delete).collect(), true)
}
