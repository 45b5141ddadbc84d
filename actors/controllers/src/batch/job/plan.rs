//! Plans the pods that a Job creates or deletes.

use std::time::Duration;

use oarlock_meta::Time;

use super::backoff::{Record, finished};
use super::indexes::Indexes;
use super::policy::failures_after;
use super::policy::index;
use super::rank;
use super::snapshot::{Pod, Snapshot, failures, number, terminating};
use super::verdict::{Verdict, deadline, verdict};

/// The most pods that one reconcile creates or deletes (upstream `MaxPodCreateDeletePerSync`).
pub(super) const BURST: usize = 500;

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct New {
    /// The pod's index, in indexed Jobs.
    pub(super) index: Option<i64>,
    /// The earlier counted and ignored failures of the index, if the Job limits failures per index.
    pub(super) failures: Option<(i64, i64)>,
}

/// The pods that a reconcile deletes and creates, and the Job's verdict.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    /// How the Job ends, if it does.
    pub(super) verdict: Option<Verdict>,
    /// The pods to delete.
    pub(super) delete: Vec<&'a Pod>,
    /// Whether the finalizers of the deleted pods are removed first, so that superfluous pods do not count as failures.
    pub(super) release: bool,
    /// The pods to create.
    pub(super) create: Vec<New>,
    /// The time after which the plan may change without any other change.
    pub(super) again: Option<Duration>,
    /// Whether the plan manages pods, so that the status can state whether the Job is suspended.
    pub(super) managed: bool,
}

/// Plans a Job's next step. When a Job ends, all its active pods are deleted and then counted.
pub(super) fn plan<'a>(snapshot: &Snapshot<'a>, now: Time) -> Plan<'a> {
    let job = &snapshot.job.value;
    if let Some(verdict) = verdict(snapshot, now) {
        return Plan { verdict: Some(verdict), delete: snapshot.active.clone(), ..Plan::default() };
    }
    let mut plan = Plan { again: deadline(job, now).map(Duration::from_secs), ..Plan::default() };
    if snapshot.job.meta.deleting() {
        return plan;
    }
    plan.managed = true;
    let wanted = if job.suspend { 0 } else { wanted(snapshot) };
    plan.delete = rank::to_delete(snapshot, snapshot.active.len().saturating_sub(wanted));
    plan.delete.truncate(if job.suspend { usize::MAX } else { BURST });
    plan.release = true;
    // Deletes and creates are not mixed, because a deleted pod may make room for another index.
    if plan.delete.is_empty() && !job.suspend {
        let there = snapshot.active.len() + if job.replaces_ended_only { going(snapshot) } else { 0 };
        let (create, wait) = missing(snapshot, wanted.saturating_sub(there).min(BURST), now);
        plan.create = create;
        plan.again = plan.again.into_iter().chain(wait).min();
    }
    plan
}

fn going(snapshot: &Snapshot<'_>) -> usize {
    usize::try_from(snapshot.terminating).unwrap_or(usize::MAX)
}

/// Returns the wanted number of active pods.
fn wanted(snapshot: &Snapshot<'_>) -> usize {
    let job = &snapshot.job.value;
    let wanted = match job.completions {
        // After the first success of a work queue no new pods are created.
        None if snapshot.succeeded > 0 => number(snapshot.active.len()),
        None => job.parallelism,
        Some(completions) => completions.saturating_sub(snapshot.succeeded).min(job.parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// Returns the pods to create now, and the time until the next waiting pod may be created.
fn missing(snapshot: &Snapshot<'_>, count: usize, now: Time) -> (Vec<New>, Option<Duration>) {
    let job = &snapshot.job.value;
    if count == 0 {
        return (Vec::new(), None);
    }
    if job.per_index.is_none()
        && let Some(wait) = snapshot.backoff.remaining(now)
    {
        return (Vec::new(), Some(wait));
    }
    if !job.indexed() {
        return (vec![New::default(); count], None);
    }
    let mut taken = snapshot.done.and(&snapshot.running());
    if job.replaces_ended_only {
        let going: Indexes = snapshot.pods.iter().filter(|pod| terminating(pod)).filter_map(|pod| index(pod)).collect();
        taken = taken.and(&going);
    }
    if let Some(failed) = &snapshot.failed_indexes {
        taken = taken.and(failed);
    }
    let (mut create, mut wait) = (Vec::new(), None);
    for index in taken.missing(count, job.completions.unwrap_or(0)) {
        let failed = snapshot.last_failed.get(&index).copied();
        // Each index has a pause of its own.
        let pause = failed.and_then(|pod| Record { failures: failures(pod) + 1, last: finished(pod) }.remaining(now));
        if let Some(pause) = pause {
            wait = wait.into_iter().chain([pause]).min();
            continue;
        }
        let failures = job.per_index.map(|_| failures_after(job, failed.map(|pod| &**pod)));
        create.push(New { index: Some(index), failures });
    }
    (create, wait)
}
