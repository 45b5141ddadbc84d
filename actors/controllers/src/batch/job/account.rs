//! Counts each ended pod of a Job exactly once, even if the controller stops at any point.
//!
//! A pod keeps the tracking finalizer until it has been counted. First the pod's uid is written into `status.uncountedTerminatedPods` (a succeeded
//! index directly into `completedIndexes`), then the finalizer is removed, and then the uid is replaced by a higher counter. A controller that stopped
//! in between finds in the status which of the three steps were done.

use std::collections::BTreeSet;

use oarlock_meta::{Time, Uid};
use oarlock_seeded_bug::seeded_bug;

use super::conditions::ensure;
use super::plan::Plan;
use super::policy::index;
use super::policy::{Handling, handling, valid_index};
use super::snapshot::{Pod, Snapshot, failed, number};
use super::verdict::Verdict;
use crate::project::{JobState, Phase};

/// The most uids in the status, and so the most finalizers that one reconcile removes (upstream `MaxUncountedPods`).
pub(super) const MAX_UNCOUNTED: usize = 500;

/// The pods that a plan's writes have created and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The number of created pods.
    pub(super) created: i64,
    /// The number of deleted pods.
    pub(super) deleted: i64,
    /// The number of deleted pods that were ready.
    pub(super) deleted_ready: i64,
}

/// Whether this reconcile suspends or resumes the Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuspendChange {
    /// The Job is suspended.
    Suspended,
    /// The Job is resumed.
    Resumed,
}

/// The first half of counting: the status to write before finalizers are removed.
#[derive(Debug)]
pub(super) struct Open<'a> {
    /// The status, to be written if it differs from the current one.
    pub(super) status: JobState,
    /// The pods whose finalizers are removed after the write.
    pub(super) release: Vec<&'a Pod>,
    /// How the Job ends when all pods are counted.
    pub(super) verdict: Option<Verdict>,
    /// A suspension or resumption to report by an Event.
    pub(super) suspend_change: Option<SuspendChange>,
    /// Whether the status had no room for further ended pods.
    full: bool,
}

/// Computes the first status from the pods and the outcome of the plan's writes.
pub(super) fn open<'a>(snapshot: &Snapshot<'a>, plan: &Plan<'_>, outcome: Outcome, now: Time) -> Open<'a> {
    let job = &snapshot.job.value;
    let mut status = job.status.clone();
    if status.started.is_none() && !job.suspend {
        status.started = Some(now);
    }
    let active = number(snapshot.active.len()) + outcome.created - outcome.deleted;
    status.active = active;
    status.ready = Some(snapshot.ready() - outcome.deleted_ready);
    status.terminating = Some(snapshot.terminating + outcome.deleted);
    let mut suspend_change = None;
    let verdict = match &plan.verdict {
        // A pod that could not be deleted may still succeed.
        Some(verdict) => Some(verdict.clone()).filter(|_| active == 0),
        None if complete(snapshot, active) => Some(Verdict::reached()),
        None => {
            suspend_change = plan.managed.then(|| suspension(&mut status, job.suspend, now)).flatten();
            None
        }
    };
    settle(&mut status, &snapshot.tracked);
    let mut open = Open { status, release: Vec::new(), verdict, suspend_change, full: false };
    let new = open.enter(snapshot);
    // A pod counted before its finalizer is removed would be counted again after a restart.
    if seeded_bug!("job_counts_twice") {
        settle(&mut open.status, &BTreeSet::new());
    }
    if job.indexed() {
        let done = snapshot.done_before.and(&new.into_iter().collect());
        open.status.succeeded = done.total();
        open.status.completed_indexes = done.to_string().into();
        open.status.failed_indexes = snapshot.failed_indexes.as_ref().map(|indexes| indexes.to_string().into());
    }
    if let Some(verdict) = &open.verdict
        && open.status.stands(verdict.interim()).is_none()
    {
        let why = (verdict.reason.as_str(), verdict.message.as_str());
        ensure(&mut open.status.conditions, verdict.interim(), "True", why, now);
    }
    open
}

/// Whether enough pods have succeeded and no active pod is left.
fn complete(snapshot: &Snapshot<'_>, active: i64) -> bool {
    let enough = match snapshot.job.value.completions {
        Some(completions) => snapshot.succeeded >= completions,
        None => snapshot.succeeded > 0,
    };
    enough && active == 0
}

fn suspension(status: &mut JobState, suspend: bool, now: Time) -> Option<SuspendChange> {
    let (to, why, suspend_change) = if suspend {
        ("True", ("JobSuspended", "Job suspended"), SuspendChange::Suspended)
    } else {
        ("False", ("JobResumed", "Job resumed"), SuspendChange::Resumed)
    };
    let changed = ensure(&mut status.conditions, "Suspended", to, why, now);
    if changed && !suspend {
        // The time of the suspension does not count as active time.
        status.started = Some(now);
    }
    changed.then_some(suspend_change)
}

/// Replaces the uids of pods without a finalizer by higher counters.
fn settle(status: &mut JobState, tracked: &BTreeSet<&Uid>) {
    for (uids, counter) in
        [(&mut status.uncounted_succeeded, &mut status.succeeded), (&mut status.uncounted_failed, &mut status.failed)]
    {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        *counter += number(before - uids.len());
    }
}

impl<'a> Open<'a> {
    /// Enters ended pods into the status, as far as it has room; returns the indexes that have succeeded with them.
    fn enter(&mut self, snapshot: &Snapshot<'a>) -> Vec<i64> {
        let job = &snapshot.job.value;
        let known_failed = &job.status.uncounted_failed;
        let fails_rest = self.verdict.as_ref().is_some_and(|verdict| !verdict.success);
        let mut done = Vec::new();
        for pod in snapshot.pods.iter().copied().filter(|pod| snapshot.tracked.contains(&pod.meta.uid)) {
            let (uid, failed) = (&pod.meta.uid, failed(job, pod));
            let good = pod.value.phase == Phase::Succeeded;
            if !(snapshot.job.meta.deleting() || self.verdict.is_some() || good || (failed && !awaited(snapshot, pod)))
            {
                continue;
            }
            self.release.push(pod);
            let index = valid_index(job, pod);
            if good && !known_failed.contains(uid) {
                match index {
                    // The entry of the index is enough to count the pod once.
                    Some(index) if job.indexed() && !snapshot.done_before.has(index) => done.push(index),
                    _ if job.indexed() || self.status.uncounted_succeeded.contains(uid) => {}
                    _ => self.status.uncounted_succeeded.push(uid.clone()),
                }
            } else if (failed || fails_rest)
                && !known_failed.contains(uid)
                && (index.is_some() || !job.indexed())
                && handling(job, pod) != Handling::Ignored
            {
                self.status.uncounted_failed.push(uid.clone());
            }
            let entered = self.status.uncounted_succeeded.len() + self.status.uncounted_failed.len() + done.len();
            if entered >= MAX_UNCOUNTED {
                self.full = true;
                break;
            }
        }
        done
    }

    /// The second half of counting: computes the status after these finalizers are removed. Returns whether the Job is finished.
    pub(super) fn close(&mut self, snapshot: &Snapshot<'_>, released: &BTreeSet<Uid>, now: Time) -> bool {
        let tracked: BTreeSet<&Uid> = snapshot.tracked.iter().copied().filter(|uid| !released.contains(*uid)).collect();
        settle(&mut self.status, &tracked);
        let status = &mut self.status;
        let Some(verdict) = &self.verdict else { return false };
        let counted = status.uncounted_succeeded.is_empty() && status.uncounted_failed.is_empty();
        let kept = self.release.iter().any(|pod| !released.contains(&pod.meta.uid));
        if self.full || kept || !counted || status.terminating.unwrap_or(0) > 0 {
            return false;
        }
        let kind = if verdict.success { "Complete" } else { "Failed" };
        ensure(&mut status.conditions, kind, "True", (&verdict.reason, &verdict.message), now);
        if verdict.success {
            status.completed = Some(now);
        }
        true
    }
}

/// Whether a pod is the last failed one of an index whose replacement does not exist yet, so that the pod must be kept.
fn awaited(snapshot: &Snapshot<'_>, pod: &Pod) -> bool {
    index(pod).and_then(|index| snapshot.last_failed.get(&index)).is_some_and(|last| last.meta.uid == pod.meta.uid)
}
