//! Whether a Job is at its end, and why. Several reasons may hold at once; the first one counts.

use oarlock_meta::Time;
use oarlock_schema::Str;

use super::look::{Look, failed};
use super::policy::{self, Handling, handling};
use crate::project::{Condition, Job, Phase};

/// Interim condition before Complete.
pub(super) const SUCCESS: &str = "SuccessCriteriaMet";
/// Interim condition before Failed.
pub(super) const FAILURE: &str = "FailureTarget";

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Complete; Failed otherwise.
    pub(super) success: bool,
    /// One word why.
    pub(super) reason: Str,
    /// A sentence why.
    pub(super) message: Str,
}

impl Verdict {
    fn new(success: bool, reason: &str, message: impl Into<Str>) -> Self {
        Self { success, reason: reason.into(), message: message.into() }
    }

    fn standing(success: bool, condition: &Condition) -> Self {
        Self { success, reason: condition.reason.clone(), message: condition.message.clone() }
    }

    /// As many successes as are wanted, and nobody left.
    pub(super) fn reached() -> Self {
        Self::new(true, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The interim condition.
    pub(super) const fn interim(&self) -> &'static str {
        if self.success { SUCCESS } else { FAILURE }
    }
}

/// What is decided before pods are made or deleted: everything but that as many succeeded as are wanted.
pub(super) fn verdict(look: &Look<'_>, now: Time) -> Option<Verdict> {
    let (job, status) = (&look.job.value, &look.job.value.status);
    if let Some(condition) = status.stands(SUCCESS) {
        return Some(Verdict::standing(true, condition));
    }
    if let Some(condition) = status.stands(FAILURE) {
        return Some(Verdict::standing(false, condition));
    }
    let fails = |pod: &&super::look::Pod| match handling(job, pod) {
        Handling::FailsJob(message) if failed(job, pod) => Some(message),
        _ => None,
    };
    if let Some(message) = look.pods.iter().find_map(fails) {
        return Some(Verdict::new(false, "PodFailurePolicy", message));
    }
    if look.failed > job.backoff_limit || restarted_too_often(look) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::new(false, "BackoffLimitExceeded", message));
    }
    if deadline(job, now) == Some(0) {
        return Some(Verdict::new(false, "DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    if let Some(failed) = &look.failed_indexes {
        if job.per_index.and_then(|per| per.max_failed).is_some_and(|max| failed.total() > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::new(false, "MaxFailedIndexesExceeded", message));
        }
        if failed.total() > 0 && failed.total() + look.done.total() >= job.completions.unwrap_or(0) {
            return Some(Verdict::new(false, "FailedIndexes", "Job has failed indexes"));
        }
    }
    policy::success(job, &look.done).map(|message| Verdict::new(true, "SuccessPolicy", message))
}

/// Containers that are restarted in place count as failures, too (upstream `pastBackoffLimitOnFailure`).
fn restarted_too_often(look: &Look<'_>) -> bool {
    let job = &look.job.value;
    let alive = look.pods.iter().filter(|pod| matches!(pod.value.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = alive.filter_map(|pod| pod.value.job.as_ref()).map(|details| details.restarts).sum();
    job.restarts && restarts >= job.backoff_limit.max(1)
}

/// Seconds until the Job has been active for too long; 0 when it has.
pub(super) fn deadline(job: &Job, now: Time) -> Option<u64> {
    if job.suspend {
        return None;
    }
    let started = job.status.started.unwrap_or(now);
    let due = started.unix().saturating_add(job.deadline?);
    Some(u64::try_from(due.saturating_sub(now.unix())).unwrap_or(0))
}
