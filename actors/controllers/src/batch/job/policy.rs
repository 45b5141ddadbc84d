//! Evaluates the failure and success policies of a Job.

use oarlock_informer::Item;

use super::indexes::Indexes;
use crate::project::{Action, FailureRule, Job, PodView, Requirement};

/// The failure policy's decision about a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// The failure counts.
    Counts,
    /// The pod's index fails at once; the failure counts.
    FailsIndex,
    /// The Job fails, with this message; the failure counts.
    FailsJob(String),
    /// The failure does not count.
    Ignored,
}

/// Applies the first matching rule to a failed pod (upstream `matchPodFailurePolicy`).
pub(super) fn handling(job: &Job, pod: &Item<PodView>) -> Handling {
    let rules = job.failure_policy.iter().flatten().enumerate();
    for (at, rule) in rules {
        let Some(what) = fits(rule, pod) else { continue };
        return match rule.action {
            Action::Ignore => Handling::Ignored,
            Action::Count => Handling::Counts,
            Action::FailIndex => Handling::FailsIndex,
            Action::FailJob => Handling::FailsJob(format!("{what} matching FailJob rule at index {at}")),
            Action::Unknown => continue,
        };
    }
    Handling::Counts
}

/// Returns what in the pod matches a rule, in upstream's wording; `None` if nothing does.
fn fits(rule: &FailureRule, pod: &Item<PodView>) -> Option<String> {
    let details = pod.value.job.as_ref()?;
    match &rule.requirement {
        Requirement::ExitCodes { container, not, values } => {
            let wanted = |name: &str, code: i64| {
                container.as_ref().is_none_or(|only| only == name) && values.contains(&code) != *not
            };
            let (name, code) = details.exits.iter().find(|(name, code)| wanted(name, *code))?;
            Some(format!("Container {name} for pod {} failed with exit code {code}", pod.key()))
        }
        Requirement::Conditions(patterns) => {
            let (kind, _) = details.conditions.iter().find(|condition| patterns.contains(condition))?;
            Some(format!("Pod {} has condition {kind}", pod.key()))
        }
    }
}

/// Returns the message of the first success policy rule that is met (upstream `matchSuccessPolicy`).
pub(super) fn success(job: &Job, succeeded: &Indexes) -> Option<String> {
    let completions = job.completions.unwrap_or(0);
    if succeeded.total() == 0 {
        return None;
    }
    let met = job.success_policy.iter().position(|rule| match (&rule.indexes, rule.count) {
        (Some(text), count) => {
            let wanted = Indexes::parse(text, completions);
            let common = wanted.common(succeeded);
            wanted.total() > 0 && (common == wanted.total() || count.is_some_and(|count| common >= count))
        }
        (None, Some(count)) => succeeded.total() >= count,
        (None, None) => false,
    })?;
    Some(format!("Matched rules at index {met}"))
}

/// Whether a failed pod makes its index fail (upstream `isIndexFailed`).
pub(super) fn fails_index(job: &Job, limit: i64, pod: &Item<PodView>) -> bool {
    let failures = pod.value.job.as_ref().map_or(0, |details| details.failures);
    match handling(job, pod) {
        Handling::FailsIndex => true,
        Handling::Ignored => false,
        Handling::Counts | Handling::FailsJob(_) => failures >= limit,
    }
}

/// Returns the counted and ignored failures for the annotations of the pod that replaces a failed pod of its index.
pub(super) fn failures_after(job: &Job, failed: Option<&Item<PodView>>) -> (i64, i64) {
    let Some((pod, details)) = failed.and_then(|pod| Some((pod, pod.value.job.as_ref()?))) else { return (0, 0) };
    match handling(job, pod) {
        Handling::Ignored => (details.failures, details.ignored + 1),
        _ => (details.failures + 1, details.ignored),
    }
}

/// Returns the index in a pod's annotation.
pub(super) fn index(pod: &Item<PodView>) -> Option<i64> {
    pod.value.job.as_ref()?.index
}

/// Returns the pod's index if it is an index of the Job.
pub(super) fn valid_index(job: &Job, pod: &Item<PodView>) -> Option<i64> {
    index(pod).filter(|index| *index < job.completions.unwrap_or(0))
}
