//! Decides whether a Job ends, and why. Of several reasons the first one counts.

use oarlock_meta::Time;
use oarlock_schema::Str;

use super::policy::{self, Handling, handling};
use super::snapshot::{Snapshot, failed};
use crate::project::{Condition, Job, Phase};

/// The interim condition before Complete.
pub(super) const SUCCESS: &str = "SuccessCriteriaMet";
/// The interim condition before Failed.
pub(super) const FAILURE: &str = "FailureTarget";

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the Job completes; otherwise it fails.
    pub(super) success: bool,
    /// The reason: one word.
    pub(super) reason: Str,
    /// The message: a sentence.
    pub(super) message: Str,
}

impl Verdict {
    fn new(success: bool, reason: &str, message: impl Into<Str>) -> Self {
        Self { success, reason: reason.into(), message: message.into() }
    }

    fn standing(success: bool, condition: &Condition) -> Self {
        Self { success, reason: condition.reason.clone(), message: condition.message.clone() }
    }

    /// The verdict of a Job with enough successes and no active pod.
    pub(super) fn reached() -> Self {
        Self::new(true, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// Returns the interim condition of the verdict.
    pub(super) const fn interim(&self) -> &'static str {
        if self.success { SUCCESS } else { FAILURE }
    }
}

/// Returns the verdict before pods are created or deleted: every reason except enough successes.
pub(super) fn verdict(snapshot: &Snapshot<'_>, now: Time) -> Option<Verdict> {
    let (job, status) = (&snapshot.job.value, &snapshot.job.value.status);
    if let Some(condition) = status.stands(SUCCESS) {
        return Some(Verdict::standing(true, condition));
    }
    if let Some(condition) = status.stands(FAILURE) {
        return Some(Verdict::standing(false, condition));
    }
    let fails = |pod: &&super::snapshot::Pod| match handling(job, pod) {
        Handling::FailsJob(message) if failed(job, pod) => Some(message),
        _ => None,
    };
    if let Some(message) = snapshot.pods.iter().find_map(fails) {
        return Some(Verdict::new(false, "PodFailurePolicy", message));
    }
    if snapshot.failed > job.backoff_limit || restarted_too_often(snapshot) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::new(false, "BackoffLimitExceeded", message));
    }
    if deadline(job, now) == Some(0) {
        return Some(Verdict::new(false, "DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    if let Some(failed) = &snapshot.failed_indexes {
        if job.per_index.and_then(|per| per.max_failed).is_some_and(|max| failed.total() > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::new(false, "MaxFailedIndexesExceeded", message));
        }
        if failed.total() > 0 && failed.total() + snapshot.done.total() >= job.completions.unwrap_or(0) {
            return Some(Verdict::new(false, "FailedIndexes", "Job has failed indexes"));
        }
    }
    policy::success(job, &snapshot.done).map(|message| Verdict::new(true, "SuccessPolicy", message))
}

/// Whether container restarts, which count as failures too, exceed the limit (upstream `pastBackoffLimitOnFailure`).
fn restarted_too_often(snapshot: &Snapshot<'_>) -> bool {
    let job = &snapshot.job.value;
    let alive = snapshot.pods.iter().filter(|pod| matches!(pod.value.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = alive.filter_map(|pod| pod.value.job.as_ref()).map(|details| details.restarts).sum();
    job.restarts && restarts >= job.backoff_limit.max(1)
}

/// Returns the seconds until the Job's active deadline; 0 if the deadline has passed.
pub(super) fn deadline(job: &Job, now: Time) -> Option<u64> {
    if job.suspend {
        return None;
    }
    let started = job.status.started.unwrap_or(now);
    let due = started.unix().saturating_add(job.deadline?);
    Some(u64::try_from(due.saturating_sub(now.unix())).unwrap_or(0))
}
