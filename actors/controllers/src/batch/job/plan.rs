//! Which pods a Job lacks or has too many of.

use std::time::Duration;

use oarlock_meta::Time;

use super::backoff::{Record, finished};
use super::indexes::Indexes;
use super::look::{Look, Pod, failures, number, terminating};
use super::policy::failures_after;
use super::policy::index;
use super::rank;
use super::verdict::{Verdict, deadline, verdict};

/// Most pods that one reconcile creates or deletes (upstream `MaxPodCreateDeletePerSync`).
pub(super) const BURST: usize = 500;

/// A pod to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct New {
    /// Its index, in indexed Jobs.
    pub(super) index: Option<i64>,
    /// Earlier failures of its index, those that counted and ignored ones; where the Job limits them.
    pub(super) failures: Option<(i64, i64)>,
}

/// What to do.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    /// How the Job ends, if it does.
    pub(super) verdict: Option<Verdict>,
    /// These are to go.
    pub(super) delete: Vec<&'a Pod>,
    /// Their finalizers go first: they are not wanted any more, which is no failure.
    pub(super) release: bool,
    /// These are to be made.
    pub(super) create: Vec<New>,
    /// When time alone may change the decision.
    pub(super) again: Option<Duration>,
    /// Pods were looked after, so that the status can say whether the Job is suspended.
    pub(super) managed: bool,
}

/// Decides. At the end of a Job all its active pods go; then they count.
pub(super) fn plan<'a>(look: &Look<'a>, now: Time) -> Plan<'a> {
    let job = &look.job.value;
    if let Some(verdict) = verdict(look, now) {
        return Plan { verdict: Some(verdict), delete: look.active.clone(), ..Plan::default() };
    }
    let mut plan = Plan { again: deadline(job, now).map(Duration::from_secs), ..Plan::default() };
    if look.job.meta.deleting() {
        return plan;
    }
    plan.managed = true;
    let wanted = if job.suspend { 0 } else { wanted(look) };
    plan.delete = rank::to_delete(look, look.active.len().saturating_sub(wanted));
    plan.delete.truncate(if job.suspend { usize::MAX } else { BURST });
    plan.release = true;
    // One of the two at a time: who goes may make room for another index.
    if plan.delete.is_empty() && !job.suspend {
        let there = look.active.len() + if job.replaces_ended_only { going(look) } else { 0 };
        let (create, wait) = missing(look, wanted.saturating_sub(there).min(BURST), now);
        plan.create = create;
        plan.again = plan.again.into_iter().chain(wait).min();
    }
    plan
}

fn going(look: &Look<'_>) -> usize {
    usize::try_from(look.terminating).unwrap_or(usize::MAX)
}

/// How many pods should be active.
fn wanted(look: &Look<'_>) -> usize {
    let job = &look.job.value;
    let wanted = match job.completions {
        // A work queue that has seen a success is left to run dry.
        None if look.succeeded > 0 => number(look.active.len()),
        None => job.parallelism,
        Some(completions) => completions.saturating_sub(look.succeeded).min(job.parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The pods to be made now, and when to look again at those that have to wait.
fn missing(look: &Look<'_>, count: usize, now: Time) -> (Vec<New>, Option<Duration>) {
    let job = &look.job.value;
    if count == 0 {
        return (Vec::new(), None);
    }
    if job.per_index.is_none()
        && let Some(wait) = look.backoff.remaining(now)
    {
        return (Vec::new(), Some(wait));
    }
    if !job.indexed() {
        return (vec![New::default(); count], None);
    }
    let mut taken = look.done.and(&look.running());
    if job.replaces_ended_only {
        let going: Indexes = look.pods.iter().filter(|pod| terminating(pod)).filter_map(|pod| index(pod)).collect();
        taken = taken.and(&going);
    }
    if let Some(failed) = &look.failed_indexes {
        taken = taken.and(failed);
    }
    let (mut create, mut wait) = (Vec::new(), None);
    for index in taken.missing(count, job.completions.unwrap_or(0)) {
        let failed = look.last_failed.get(&index).copied();
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
