//! Plans the next step of a Deployment, and its status.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Time;
use oarlock_schema::Str;
use oarlock_workloads::safe_text;

use super::snapshot::{Resize, Sets, Snapshot};
use super::{annotations, rolling, scale, status};
use crate::project::{Condition, Deployment, DeploymentState, Digest, ReplicaSet, Strategy, condition};

/// A ReplicaSet to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Create {
    /// The ReplicaSet's name.
    pub(super) name: String,
    /// The value of the hash label.
    pub(super) hash: String,
    /// The ReplicaSet's size.
    pub(super) replicas: i64,
    /// The ReplicaSet's annotations.
    pub(super) annotations: BTreeMap<Str, Str>,
}

/// The next step of a Deployment, and its status.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The set of the current template, if it must be created.
    pub(super) create: Option<Create>,
    /// The sets to change.
    pub(super) resize: Vec<Resize>,
    /// The names of sets beyond the history limit, to be deleted.
    pub(super) forget: Vec<Str>,
    /// The status to write.
    pub(super) status: DeploymentState,
    /// The new revision annotation of the Deployment, if it must change.
    pub(super) revision: Option<String>,
    /// The time after which the plan may change without any other change.
    pub(super) again: Option<Duration>,
}

/// Plans a Deployment's next step. `running` returns whether a ReplicaSet (by uid) has pods that have not ended.
pub(super) fn plan(
    deployment: &Item<Deployment>,
    sets: &[Arc<Item<ReplicaSet>>],
    running: &dyn Fn(&str) -> bool,
    now: Time,
) -> Plan {
    let snapshot = Snapshot::new(deployment, sets);
    let conditions = deployment.value.status.conditions.clone();
    let mut plan = Plan { status: DeploymentState { conditions, ..DeploymentState::default() }, ..Plan::default() };
    if deployment.meta.deleting() {
        status::count(&snapshot, &mut plan.status, now);
        return plan;
    }
    // Conditions are listed in the order in which they are first set.
    pause(&snapshot, &mut plan, now);
    if deployment.value.paused || scale::wanted(&snapshot) {
        keep_revision(&snapshot, &mut plan, now, false);
        status::count(&snapshot, &mut plan.status, now);
        plan.resize.extend(scale::scale(&snapshot));
        if deployment.value.paused {
            plan.forget = history(&snapshot);
        }
        return plan;
    }
    let create = deployment.value.strategy != Strategy::Recreate || rolling::recreated(&snapshot, running);
    keep_revision(&snapshot, &mut plan, now, create);
    status::count(&snapshot, &mut plan.status, now);
    if plan.create.is_none() && plan.resize.is_empty() {
        plan.resize = match deployment.value.strategy {
            Strategy::Recreate => rolling::recreate(&snapshot, create),
            Strategy::Rolling { .. } => rolling::roll(&snapshot),
        };
        if plan.resize.is_empty() && status::complete(deployment, &plan.status) {
            plan.forget = history(&snapshot);
        }
    }
    plan.again = status::progress(&snapshot, &mut plan.status, now);
    status::failures(&snapshot, &mut plan.status, now);
    plan
}

/// Sets the Progressing condition of a paused or resumed Deployment, so that a paused one does not exceed its progress deadline.
fn pause(snapshot: &Snapshot<'_>, plan: &mut Plan, now: Time) {
    let spec = &snapshot.deployment.value;
    if spec.deadline.is_none() {
        return;
    }
    let standing = condition(&spec.status.conditions, status::PROGRESSING);
    if standing.is_some_and(|standing| standing.reason == status::TIMED_OUT) {
        return;
    }
    let says_paused = standing.is_some_and(|standing| standing.reason == "DeploymentPaused");
    let (reason, message) = match (spec.paused, says_paused) {
        (true, false) => ("DeploymentPaused", "Deployment is paused"),
        (false, true) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    let condition = Condition::new(status::PROGRESSING, "Unknown", reason, message, now);
    status::set(&mut plan.status.conditions, condition);
}

/// Sets the revision of the current template's set, or plans to create the set (upstream `getNewReplicaSet`).
fn keep_revision(snapshot: &Snapshot<'_>, plan: &mut Plan, now: Time, create: bool) {
    let deployment = snapshot.deployment;
    let last = snapshot.old.iter().map(|set| annotations::revision(set)).max().unwrap_or(0);
    let revision = last + 1;
    let progressing = condition(&plan.status.conditions, status::PROGRESSING).is_some();
    let place = if let Some(new) = snapshot.new {
        let missing = annotations::for_set(deployment, Some(new), revision);
        let min_ready = (new.value.min_ready != deployment.value.min_ready).then_some(deployment.value.min_ready);
        let place = revision.max(annotations::revision(new));
        if !missing.is_empty() || min_ready.is_some() {
            let size = new.value.replicas;
            let set = new.key().name.clone();
            plan.resize.push(Resize { set, from: size, to: size, annotations: missing, min_ready });
        }
        if deployment.value.deadline.is_some() && !progressing {
            let message = format!("Found new replica set {:?}", new.meta.name());
            let found = Condition::new(status::PROGRESSING, "True", "FoundNewReplicaSet", message, now);
            status::set(&mut plan.status.conditions, found);
        }
        place
    } else {
        if !create {
            return;
        }
        let hash = hash(deployment.value.template, deployment.value.status.collisions);
        let mut annotations = annotations::for_set(deployment, None, revision);
        annotations.extend(annotations::for_size(None, deployment.value.replicas, snapshot.surge));
        let name = format!("{}-{hash}", deployment.meta.name());
        if deployment.value.deadline.is_some() {
            let message = format!("Created new replica set {name:?}");
            let made = Condition::new(status::PROGRESSING, "True", "NewReplicaSetCreated", message, now);
            status::set(&mut plan.status.conditions, made);
        }
        plan.create = Some(Create { name, hash, replicas: snapshot.new_size(), annotations });
        revision
    };
    let place = place.to_string();
    if deployment.meta.annotation(annotations::REVISION) != Some(&place) {
        plan.revision = Some(place);
    }
}

/// Returns the hash label's value of a template: at most ten characters (upstream `ComputeHash`).
pub(super) fn hash(template: Digest, collisions: Option<i64>) -> String {
    let mut digest = template;
    if let Some(collisions) = collisions {
        digest.number(collisions);
    }
    safe_text::of_number(digest.short())
}

/// Returns the old sets beyond the history limit, oldest revisions first, except sets that still have pods.
fn history(snapshot: &Snapshot<'_>) -> Vec<Str> {
    let Some(limit) = snapshot.deployment.value.history else { return Vec::new() };
    let mut old: Sets<'_> = snapshot.old.iter().copied().filter(|set| !set.meta.deleting()).collect();
    old.sort_by_key(|set| (annotations::revision(set), set.meta.created, Reverse(set.key().clone())));
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let idle = |set: &&Item<ReplicaSet>| {
        let status = &set.value.status;
        set.value.replicas == 0 && status.replicas == 0 && status.observed >= set.meta.generation
    };
    old.into_iter().take(surplus).filter(idle).map(|set| set.key().name.clone()).collect()
}
