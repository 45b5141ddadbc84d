//! Tests of the verdicts of Jobs.

use oarlock_informer::Item;
use oarlock_meta::Time;

use super::super::snapshot::Pod;
use super::super::verdict::verdict;
use super::{NOW, details, end, ended, indexed, job, of, pod, snapshot};
use crate::project::{Action, Condition, FailureRule, Job, PerIndex, Phase, Requirement, SuccessRule};

fn says(job: &Item<Job>, pods: &[Pod]) -> Option<(bool, String)> {
    verdict(&snapshot(job, pods), NOW).map(|verdict| (verdict.success, verdict.reason.to_string()))
}

fn fails(reason: &str) -> Option<(bool, String)> {
    Some((false, reason.to_owned()))
}

fn succeeds(reason: &str) -> Option<(bool, String)> {
    Some((true, reason.to_owned()))
}

#[test]
fn more_failures_than_the_limit_end_it() {
    let job = job(|job| {
        job.value.backoff_limit = 2;
        job.value.status.failed = 1;
        job.value.status.uncounted_failed = vec!["a".into()];
    });
    let entered = ended("a", Phase::Failed, 9_000);
    assert_eq!(says(&job, std::slice::from_ref(&entered)), None, "it is in the status already");
    assert_eq!(says(&job, &[entered, ended("b", Phase::Failed, 9_000)]), fails("BackoffLimitExceeded"));
    let going = pod("c", |pod| pod.meta.deletion = Some(NOW));
    assert_eq!(says(&job, &[going]), fails("BackoffLimitExceeded"), "who is asked to go has failed");
}

#[test]
fn restarts_in_place_are_failures_where_containers_are_restarted() {
    let restarted = |count| [pod("a", |pod| details(pod).restarts = count)];
    let mut job = job(|job| (job.value.backoff_limit, job.value.restarts) = (3, true));
    assert_eq!(says(&job, &restarted(2)), None);
    assert_eq!(says(&job, &restarted(3)), fails("BackoffLimitExceeded"));
    job.value.backoff_limit = 0;
    assert_eq!(says(&job, &restarted(0)), None);
    assert_eq!(says(&job, &restarted(1)), fails("BackoffLimitExceeded"));
    job.value.restarts = false;
    assert_eq!(says(&job, &restarted(1)), None);
}

#[test]
fn it_may_be_active_only_so_long() {
    let mut job = job(|job| job.value.deadline = Some(1_000));
    assert_eq!(says(&job, &[]), fails("DeadlineExceeded"));
    job.value.deadline = Some(1_001);
    assert_eq!(says(&job, &[]), None);
    (job.value.deadline, job.value.suspend) = (Some(1), true);
    assert_eq!(says(&job, &[]), None, "suspended");
    (job.value.suspend, job.value.status.started) = (false, None);
    assert_eq!(says(&job, &[]), None, "it begins now");
}

#[test]
fn failed_indexes_end_it_when_too_many_failed_or_all_others_are_done() {
    let mut job = indexed(4, |job| {
        job.value.per_index = Some(PerIndex { limit: 1, max_failed: Some(1) });
        job.value.backoff_limit = i64::from(i32::MAX);
    });
    let failed = |index, name: &str, failures| {
        of(index, name, |pod| {
            end(pod, Phase::Failed, 9_900);
            details(pod).failures = failures;
        })
    };
    assert_eq!(says(&job, &[failed(0, "a", 0), failed(1, "b", 1)]), None, "index 0 is tried again");
    assert_eq!(says(&job, &[failed(0, "a", 1), failed(1, "b", 1)]), fails("MaxFailedIndexesExceeded"));
    job.value.status.completed_indexes = "1-3".into();
    assert_eq!(says(&job, &[failed(0, "a", 1)]), fails("FailedIndexes"));
}

#[test]
fn the_first_rule_of_the_failure_policy_that_fits_decides() {
    let rule = |action, requirement| FailureRule { action, requirement };
    let codes = |values: &[i64], not, container: Option<&str>| Requirement::ExitCodes {
        container: container.map(Into::into),
        not,
        values: values.into(),
    };
    let disrupted = Requirement::Conditions(Box::new([("DisruptionTarget".into(), "True".into())]));
    let job = job(|job| {
        (job.value.backoff_limit, job.value.replaces_ended_only) = (0, true);
        job.value.failure_policy = Some(Box::new([
            rule(Action::Ignore, disrupted),
            rule(Action::Unknown, codes(&[1], true, None)),
            rule(Action::FailJob, codes(&[42], false, Some("main"))),
            rule(Action::Ignore, codes(&[2, 3, 42], true, None)),
        ]));
    });
    let failed = |exits: &[(&str, i64)], condition: &str| {
        [pod("a", |pod| {
            end(pod, Phase::Failed, 9_900);
            let details = details(pod);
            details.exits = exits.iter().map(|(name, code)| ((*name).into(), *code)).collect();
            details.conditions = Box::new([(condition.into(), "True".into())]);
        })]
    };
    assert_eq!(says(&job, &failed(&[("main", 42)], "DisruptionTarget")), None, "a disruption is ignored first");
    let pods = failed(&[("main", 42)], "");
    let said = verdict(&snapshot(&job, &pods), NOW).unwrap();
    assert_eq!(said.reason, "PodFailurePolicy");
    assert_eq!(said.message, "Container main for pod ns/a failed with exit code 42 matching FailJob rule at index 2");
    assert_eq!(says(&job, &failed(&[("other", 42)], "")), fails("BackoffLimitExceeded"), "no rule fits: it counts");
    assert_eq!(says(&job, &failed(&[("other", 7)], "")), None, "ignored");
    assert_eq!(says(&job, &failed(&[], "")), fails("BackoffLimitExceeded"), "no container says anything");
    let going = [pod("a", |pod| pod.meta.deletion = Some(NOW))];
    assert_eq!(says(&job, &going), None, "it has not failed yet");
}

#[test]
fn a_rule_may_fail_the_index_at_once() {
    let job = indexed(2, |job| {
        job.value.per_index = Some(PerIndex { limit: 9, max_failed: Some(0) });
        let requirement = Requirement::Conditions(Box::new([("ConfigIssue".into(), "True".into())]));
        job.value.failure_policy = Some(Box::new([FailureRule { action: Action::FailIndex, requirement }]));
    });
    let failed = |condition: &str| {
        [of(0, "a", |pod| {
            end(pod, Phase::Failed, 9_900);
            details(pod).conditions = Box::new([(condition.into(), "True".into())]);
        })]
    };
    assert_eq!(says(&job, &failed("Other")), None);
    assert_eq!(says(&job, &failed("ConfigIssue")), fails("MaxFailedIndexesExceeded"));
}

#[test]
fn the_success_policy_ends_it_when_enough_of_the_right_indexes_are_done() {
    let rule = |indexes: Option<&str>, count| SuccessRule { indexes: indexes.map(Into::into), count };
    let with = |done: &str| {
        indexed(10, |job| {
            job.value.status.completed_indexes = done.into();
            job.value.success_policy =
                Box::new([rule(Some("0,4-6"), None), rule(Some("7-9"), Some(2)), rule(None, Some(5))]);
        })
    };
    for (done, wanted) in [
        ("", None),
        ("0,4", None),
        ("0,4-6", Some("Matched rules at index 0")),
        ("7,9", Some("Matched rules at index 1")),
        ("1-4,7", Some("Matched rules at index 2")),
    ] {
        let job = with(done);
        let said = verdict(&snapshot(&job, &[]), NOW);
        assert_eq!(said.as_ref().map(|verdict| verdict.message.as_str()), wanted, "{done}");
        assert_eq!(said.map(|verdict| verdict.reason.to_string()), wanted.map(|_| "SuccessPolicy".to_owned()));
    }
}

#[test]
fn what_was_decided_once_stands() {
    let before = |kind: &str| {
        let condition = Condition::new(kind, "True", "Because", "of this", Time::from_unix(9_500));
        job(|job| {
            (job.value.backoff_limit, job.value.deadline) = (0, Some(1));
            job.value.status.conditions = vec![condition];
        })
    };
    let failed = [ended("a", Phase::Failed, 9_900)];
    assert_eq!(says(&before("SuccessCriteriaMet"), &failed), succeeds("Because"));
    assert_eq!(says(&before("FailureTarget"), &failed), fails("Because"));
}
