//! The books: each pod that ended is counted once, whatever happens in between.
//!
//! A pod keeps its finalizer until it has been counted. First its uid is written into `status.uncountedTerminatedPods` (the index of a success
//! goes straight into `completedIndexes`), then its finalizer goes, and then the counter takes the place of the uid. Who stops anywhere on the way
//! finds in the status how far it was.

use std::collections::BTreeSet;

use oarlock_meta::{Time, Uid};
use oarlock_seeded_bug::seeded_bug;

use super::conditions::ensure;
use super::look::{Look, Pod, failed, number};
use super::plan::Plan;
use super::policy::index;
use super::policy::{Handling, handling, valid_index};
use super::verdict::Verdict;
use crate::project::{JobState, Phase};

/// Uids that the status holds at most, and so finalizers that one reconcile removes (upstream `MaxUncountedPods`).
pub(super) const MAX_UNCOUNTED: usize = 500;

/// What came of a plan's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Pods made.
    pub(super) created: i64,
    /// Pods deleted.
    pub(super) deleted: i64,
    /// Of those, ready ones.
    pub(super) deleted_ready: i64,
}

/// Whether a Job was suspended or resumed just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was suspended.
    Suspended,
    /// It goes on.
    Resumed,
}

/// The first half: what the status says before finalizers are removed.
#[derive(Debug)]
pub(super) struct Open<'a> {
    /// To be written, if it differs from what is there.
    pub(super) status: JobState,
    /// Then these pods lose their finalizers.
    pub(super) release: Vec<&'a Pod>,
    /// How the Job ends, when the books are closed.
    pub(super) verdict: Option<Verdict>,
    /// To be told.
    pub(super) turn: Option<Turn>,
    /// There was no room for all of them.
    full: bool,
}

/// Takes what the pods say, and what was done, into the status.
pub(super) fn open<'a>(look: &Look<'a>, plan: &Plan<'_>, outcome: Outcome, now: Time) -> Open<'a> {
    let job = &look.job.value;
    let mut status = job.status.clone();
    if status.started.is_none() && !job.suspend {
        status.started = Some(now);
    }
    let active = number(look.active.len()) + outcome.created - outcome.deleted;
    status.active = active;
    status.ready = Some(look.ready() - outcome.deleted_ready);
    status.terminating = Some(look.terminating + outcome.deleted);
    let mut turn = None;
    let verdict = match &plan.verdict {
        // Who could not be deleted may still succeed.
        Some(verdict) => Some(verdict.clone()).filter(|_| active == 0),
        None if complete(look, active) => Some(Verdict::reached()),
        None => {
            turn = plan.managed.then(|| suspension(&mut status, job.suspend, now)).flatten();
            None
        }
    };
    settle(&mut status, &look.tracked);
    let mut open = Open { status, release: Vec::new(), verdict, turn, full: false };
    let new = open.enter(look);
    // Who counts while the finalizers are still there counts again after a restart.
    if seeded_bug!("job_counts_twice") {
        settle(&mut open.status, &BTreeSet::new());
    }
    if job.indexed() {
        let done = look.done_before.and(&new.into_iter().collect());
        open.status.succeeded = done.total();
        open.status.completed_indexes = done.to_string().into();
        open.status.failed_indexes = look.failed_indexes.as_ref().map(|indexes| indexes.to_string().into());
    }
    if let Some(verdict) = &open.verdict
        && open.status.stands(verdict.interim()).is_none()
    {
        let why = (verdict.reason.as_str(), verdict.message.as_str());
        ensure(&mut open.status.conditions, verdict.interim(), "True", why, now);
    }
    open
}

/// As many succeeded as are wanted, and nobody is left.
fn complete(look: &Look<'_>, active: i64) -> bool {
    let enough = match look.job.value.completions {
        Some(completions) => look.succeeded >= completions,
        None => look.succeeded > 0,
    };
    enough && active == 0
}

fn suspension(status: &mut JobState, suspend: bool, now: Time) -> Option<Turn> {
    let (to, why, turn) = if suspend {
        ("True", ("JobSuspended", "Job suspended"), Turn::Suspended)
    } else {
        ("False", ("JobResumed", "Job resumed"), Turn::Resumed)
    };
    let changed = ensure(&mut status.conditions, "Suspended", to, why, now);
    if changed && !suspend {
        // Time while it was suspended is not time that it was active.
        status.started = Some(now);
    }
    changed.then_some(turn)
}

/// Uids of pods without a finalizer become numbers.
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
    /// Enters pods that have ended, as far as there is room; the indexes that are done by them.
    fn enter(&mut self, look: &Look<'a>) -> Vec<i64> {
        let job = &look.job.value;
        let known_failed = &job.status.uncounted_failed;
        let fails_rest = self.verdict.as_ref().is_some_and(|verdict| !verdict.success);
        let mut done = Vec::new();
        for pod in look.pods.iter().copied().filter(|pod| look.tracked.contains(&pod.meta.uid)) {
            let (uid, failed) = (&pod.meta.uid, failed(job, pod));
            let good = pod.value.phase == Phase::Succeeded;
            if !(look.job.meta.deleting() || self.verdict.is_some() || good || (failed && !awaited(look, pod))) {
                continue;
            }
            self.release.push(pod);
            let index = valid_index(job, pod);
            if good && !known_failed.contains(uid) {
                match index {
                    // The index is enough to count it once.
                    Some(index) if job.indexed() && !look.done_before.has(index) => done.push(index),
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

    /// The second half: what the status says when these finalizers are gone. Whether the Job is finished now.
    pub(super) fn close(&mut self, look: &Look<'_>, released: &BTreeSet<Uid>, now: Time) -> bool {
        let tracked: BTreeSet<&Uid> = look.tracked.iter().copied().filter(|uid| !released.contains(*uid)).collect();
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

/// The last failed pod of an index stays until its successor is there.
fn awaited(look: &Look<'_>, pod: &Pod) -> bool {
    index(pod).and_then(|index| look.last_failed.get(&index)).is_some_and(|last| last.meta.uid == pod.meta.uid)
}
