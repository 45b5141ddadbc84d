//! Computes a Deployment's status (upstream `progress.go`, `calculateStatus`).

use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Time;

use super::snapshot::Snapshot;
use crate::project::{Condition, Deployment, DeploymentState, condition};

pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const FINISHED: &str = "NewReplicaSetAvailable";
const FAILURE: &str = "ReplicaFailure";

/// Sets a condition unless an equal one is set; the transition time changes only with the condition's status.
pub(super) fn set(all: &mut Vec<Condition>, mut next: Condition) {
    if let Some(current) = condition(all, &next.kind) {
        if current.status == next.status && current.reason == next.reason {
            return;
        }
        if current.status == next.status {
            next.transition = current.transition;
        }
    }
    all.retain(|condition| condition.kind != next.kind);
    all.push(next);
}

/// Sets the counts and condition Available.
pub(super) fn count(snapshot: &Snapshot<'_>, state: &mut DeploymentState, now: Time) {
    let spec = &snapshot.deployment.value;
    let sum = |of: &dyn Fn(&crate::project::ReplicaSetState) -> i64| -> i64 {
        snapshot.all().map(|set| of(&set.value.status)).sum()
    };
    let available = sum(&|status| status.available);
    let mut conditions = std::mem::take(&mut state.conditions);
    let enough = available >= spec.replicas - snapshot.unavailable;
    let (status, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut conditions, Condition::new("Available", status, reason, message, now));
    *state = DeploymentState {
        observed: snapshot.deployment.meta.generation,
        replicas: sum(&|status| status.replicas),
        updated: snapshot.new.map_or(0, |new| new.value.status.replicas),
        ready: sum(&|status| status.ready),
        available,
        unavailable: (snapshot.total() - available).max(0),
        terminating: Some(sum(&|status| status.terminating.unwrap_or(0))),
        conditions,
        collisions: spec.status.collisions,
    };
}

/// Copies condition ReplicaFailure from a ReplicaSet.
pub(super) fn failures(snapshot: &Snapshot<'_>, state: &mut DeploymentState, now: Time) {
    let failure = snapshot
        .new
        .into_iter()
        .chain(snapshot.old.iter().copied())
        .find_map(|replica_set| condition(&replica_set.value.status.conditions, FAILURE));
    match failure {
        Some(failure) => set(&mut state.conditions, Condition { updated: Some(now), ..failure.clone() }),
        None => state.conditions.retain(|condition| condition.kind != FAILURE),
    }
}

/// Whether the rollout is complete.
pub(super) fn complete(deployment: &Item<Deployment>, status: &DeploymentState) -> bool {
    let wanted = deployment.value.replicas;
    status.updated == wanted
        && status.replicas == wanted
        && status.available == wanted
        && status.observed >= deployment.meta.generation
}

/// Sets condition Progressing; returns the time after which the progress deadline must be checked again.
pub(super) fn progress(snapshot: &Snapshot<'_>, status: &mut DeploymentState, now: Time) -> Option<Duration> {
    let spec = &snapshot.deployment.value;
    let Some(deadline) = spec.deadline else {
        status.conditions.retain(|condition| condition.kind != PROGRESSING);
        return None;
    };
    let current = condition(&status.conditions, PROGRESSING).cloned();
    let finished = |condition: &Option<Condition>| condition.as_ref().is_some_and(|one| one.reason == FINISHED);
    let settled = status.replicas == status.updated && finished(&current);
    let what = snapshot.new.map_or_else(
        || format!("Deployment {:?}", snapshot.deployment.meta.name()),
        |new| format!("ReplicaSet {:?}", new.meta.name()),
    );
    let condition_of = |status: &str, reason: &str, tail: &str| {
        Condition::new(PROGRESSING, status, reason, format!("{what} {tail}"), now)
    };
    if !settled {
        if complete(snapshot.deployment, status) {
            set(&mut status.conditions, condition_of("True", FINISHED, "has successfully progressed."));
        } else if progressed(&spec.status, status) {
            // Replaced each time, because the deadline counts from the last progress.
            let mut next = condition_of("True", "ReplicaSetUpdated", "is progressing.");
            if let Some(current) = current.as_ref().filter(|current| current.status == "True") {
                next.transition = current.transition;
            }
            status.conditions.retain(|condition| condition.kind != PROGRESSING);
            status.conditions.push(next);
        } else if timed_out(current.as_ref(), deadline, now) {
            set(&mut status.conditions, condition_of("False", TIMED_OUT, "has timed out progressing."));
        }
    }
    let standing = condition(&status.conditions, PROGRESSING)?;
    if standing.reason == TIMED_OUT || standing.reason == FINISHED || complete(snapshot.deployment, status) {
        return None;
    }
    let due = standing.updated?.unix().saturating_add(deadline).saturating_sub(now.unix());
    Some(Duration::from_secs(u64::try_from(due).unwrap_or(0).saturating_add(1)))
}

fn progressed(old: &DeploymentState, new: &DeploymentState) -> bool {
    new.updated > old.updated
        || new.replicas - new.updated < old.replicas - old.updated
        || new.ready > old.ready
        || new.available > old.available
}

fn timed_out(current: Option<&Condition>, deadline: i64, now: Time) -> bool {
    let Some(current) = current.filter(|current| current.reason != FINISHED) else { return false };
    if current.reason == TIMED_OUT {
        return true;
    }
    current.updated.is_some_and(|updated| updated.unix().saturating_add(deadline) < now.unix())
}
