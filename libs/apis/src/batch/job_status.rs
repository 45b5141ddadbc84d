//! Validates writes of a Job's status (upstream `ValidateJobUpdateStatus`), so that clients can rely on a status whichever controller manages the Job.
//!
//! Most rules apply only when one of their fields has changed, so that a status that violated a rule before can still be written.

use std::collections::BTreeSet;

use oarlock_meta::field::{Omit, Raw};
use oarlock_meta::{ErrorList, FieldError, Path, Time};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::batch_v1::{Job, JobSpec, JobStatus};

use super::indexes;
use crate::rules::{non_negative, show};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

/// The conditions of a status that the rules use.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Conditions {
    complete: bool,
    failed: bool,
    target: bool,
    met: bool,
}

impl Conditions {
    fn of(status: JobStatus<'_>) -> Self {
        let is_true = |kind| is(status, kind, "True");
        Self {
            complete: is_true(COMPLETE),
            failed: is_true(FAILED),
            target: is_true(FAILURE_TARGET),
            met: is_true(SUCCESS_CRITERIA_MET),
        }
    }

    const fn finished(self) -> bool {
        self.complete || self.failed
    }
}

fn is(status: JobStatus<'_>, kind: &str, value: &str) -> bool {
    status.conditions().iter().any(|one| one.type_() == kind && one.status() == value)
}

/// A change of a Job's status.
struct Change<'a> {
    spec: JobSpec<'a>,
    now: JobStatus<'a>,
    before: JobStatus<'a>,
    is: Conditions,
    was: Conditions,
}

/// Validates an update of a Job's status. Both arguments are whole Jobs.
pub fn validate_change(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let (job, before) = (Job::new(new), Job::new(old).status());
    let now = job.status();
    let change = Change { spec: job.spec(), now, before, is: Conditions::of(now), was: Conditions::of(before) };
    let path = Path::new("status");
    change.counts(&path, errors);
    change.contradictions(&path, errors);
    change.times(&path, errors);
    change.end(&path, errors);
    change.indexes(&path, errors);
    change.met(&path, errors);
    change.past(&path, errors);
}

fn conditions(path: &Path<'_>, text: &str, errors: &mut ErrorList) {
    errors.push(FieldError::invalid(&path.child("conditions"), Omit, text));
}

impl Change<'_> {
    fn indexed(&self) -> bool {
        self.spec.completion_mode() == Some("Indexed")
    }

    fn counts(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let now = self.now;
        let counts = [
            ("active", Some(now.active())),
            ("succeeded", Some(now.succeeded())),
            ("failed", Some(now.failed())),
            ("ready", now.ready()),
            ("terminating", now.terminating()),
        ];
        for (field, count) in counts {
            non_negative(count.unwrap_or(0), &path.child(field), errors);
        }
        let Some(uncounted) = now.uncounted_terminated_pods() else { return };
        let (at, mut seen) = (path.child("uncountedTerminatedPods"), BTreeSet::new());
        for (field, uids) in [("succeeded", uncounted.succeeded()), ("failed", uncounted.failed())] {
            let at = at.child(field);
            for (i, uid) in uids.iter().enumerate() {
                if uid.is_empty() {
                    errors.push(FieldError::invalid(&at.index(i), uid, "must not be empty"));
                } else if !seen.insert(uid) {
                    errors.push(FieldError::duplicate(&at.index(i), uid));
                }
            }
        }
    }

    fn contradictions(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (is, was) = (self.is, self.was);
        if is.complete && is.failed && (is.complete, is.failed) != (was.complete, was.failed) {
            conditions(path, "cannot set Complete=True and Failed=true conditions", errors);
        }
        if is.complete && is.target && (is.complete, is.target) != (was.complete, was.target) {
            conditions(path, "cannot set Complete=True and FailureTarget=true conditions", errors);
        }
    }

    fn times(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (now, at) = (self.now, path.child("completionTime"));
        let (started, completed) = (now.start_time(), now.completion_time());
        let moved = completed != self.before.completion_time();
        if moved || self.is.complete != self.was.complete {
            match completed {
                Some(time) if !self.is.complete => {
                    let text = "cannot set completionTime when there is no Complete=True condition";
                    errors.push(FieldError::invalid(&at, time, text));
                }
                None if self.is.complete => {
                    errors.push(FieldError::required(&at, "completionTime is required for Complete jobs"));
                }
                _ => {}
            }
        }
        let time = |text: Option<&str>| text.and_then(|text| Time::parse(text).ok());
        if let (Some(start), Some(end)) = (time(started), time(completed))
            && end < start
            && (moved || started != self.before.start_time())
        {
            let text = "must be equal to or after `startTime`";
            errors.push(FieldError::invalid(&at, completed.unwrap_or_default(), text));
        }
    }

    fn end(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (now, before, is, was) = (self.now, self.before, self.is, self.was);
        if is.failed && !is.target && (!was.failed || now.failed_indexes() != before.failed_indexes()) {
            conditions(path, "cannot set Failed=True condition without the FailureTarget=true condition", errors);
        }
        if is.complete && !is.met && (!was.complete || was.met) {
            conditions(
                path,
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                errors,
            );
        }
        if !is.finished() {
            return;
        }
        let begins = !was.finished();
        if now.active() > 0 && (begins || now.active() != before.active()) {
            let text = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path.child("active"), now.active(), text));
        }
        let never_ran = self.spec.suspend() == Some(true) && self.spec.completions() == Some(0);
        if now.start_time().is_none() && !never_ran && (begins || before.start_time().is_some()) {
            errors.push(FieldError::required(&path.child("startTime"), "startTime is required for finished job"));
        }
        if let Some(uncounted) = now.uncounted_terminated_pods().filter(|pods| {
            pods.succeeded().len() + pods.failed().len() > 0
                && (begins || pods.node() != before.uncounted_terminated_pods().and_then(View::node))
        }) {
            let shown = Raw(uncounted.node().map(show::internal).unwrap_or_default());
            let at = path.child("uncountedTerminatedPods");
            errors.push(FieldError::invalid(&at, shown, "must be empty for finished job"));
        }
    }

    fn indexes(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (now, before) = (self.now, self.before);
        let (done, failed) = (now.completed_indexes(), now.failed_indexes());
        let (done_moved, failed_moved) = (done != before.completed_indexes(), failed != before.failed_indexes());
        let (at_done, at_failed) = (path.child("completedIndexes"), path.child("failedIndexes"));
        let completions = self.spec.completions();
        let per_index = self.spec.backoff_limit_per_index().is_some();
        let parse = |text: &str| completions.map_or(Ok(Vec::new()), |completions| indexes::parse(text, completions));
        let (ranges_done, ranges_failed) = (parse(done), parse(failed.unwrap_or_default()));
        if let (Err(why), true) = (&ranges_done, done_moved) {
            errors.push(FieldError::invalid(&at_done, done, format!("error parsing completedIndexes: {why}")));
        }
        if let (Err(why), Some(text), true) = (&ranges_failed, failed, failed_moved && per_index) {
            errors.push(FieldError::invalid(&at_failed, text, format!("error parsing failedIndexes: {why}")));
        }
        if done_moved && !done.is_empty() && !self.indexed() {
            let text = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(&at_done, done, text));
        }
        if let Some(text) = failed.filter(|_| failed_moved && !per_index) {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(&at_failed, text, why));
        }
        if let (Ok(done), Ok(ranges), Some(text)) = (&ranges_done, &ranges_failed, failed)
            && (done_moved || failed_moved)
            && let Some(index) = indexes::overlap(done, ranges)
        {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(FieldError::invalid(&at_failed, text, why));
        }
    }

    fn met(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (now, before, is) = (self.now, self.before, self.is);
        if let Some(count) = now.terminating().filter(|count| *count > 0 && is.finished())
            && (!self.was.finished() || now.terminating() != before.terminating())
        {
            let text = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path.child("terminating"), count, text));
        }
        if let Some(count) = now.ready().filter(|count| *count > now.active())
            && (now.ready() != before.ready() || now.active() != before.active())
        {
            errors.push(FieldError::invalid(&path.child("ready"), count, "cannot set more ready pods than active"));
        }
        if is.met && is.failed {
            conditions(path, "cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        }
        if is.met && is.target {
            conditions(path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
        }
        if is.complete && !is.met && self.spec.success_policy().is_some() {
            let text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            conditions(path, text, errors);
        }
    }

    /// Validates that terminal conditions and counters are not taken back.
    fn past(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let (now, before, is, was) = (self.now, self.before, self.is, self.was);
        for (kind, is, was) in [
            (FAILED, is.failed, was.failed),
            (COMPLETE, is.complete, was.complete),
            (FAILURE_TARGET, is.target, was.target),
        ] {
            if was && !is {
                conditions(path, &format!("cannot disable the terminal {kind}=True condition"), errors);
            }
        }
        if now.failed() < before.failed() {
            let text = "cannot decrease the failed counter";
            errors.push(FieldError::invalid(&path.child("failed"), now.failed(), text));
        }
        // An indexed Job may shrink while all its indexes run at once.
        let elastic = self.indexed() && self.spec.completions() == self.spec.parallelism();
        if now.succeeded() < before.succeeded() && !elastic {
            let text = "cannot decrease the succeeded counter";
            errors.push(FieldError::invalid(&path.child("succeeded"), now.succeeded(), text));
        }
        if let (Some(time), Some(earlier)) = (now.completion_time(), before.completion_time())
            && time != earlier
        {
            errors.push(FieldError::invalid(&path.child("completionTime"), time, crate::rules::IMMUTABLE));
        }
        let resumes = self::is(before, "Suspended", "True") && self::is(now, "Suspended", "False");
        let moved = before.start_time().is_some() && now.start_time() != before.start_time();
        if moved && !resumes && self.spec.suspend() != Some(true) {
            let text = "startTime cannot be removed for unsuspended job";
            errors.push(FieldError::required(&path.child("startTime"), text));
        }
        if was.met && !is.met {
            conditions(path, "cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if was.complete && !was.met && is.met {
            let text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            conditions(path, text, errors);
        }
    }
}
