//! Tests of the plan of a Job: which pods are created and deleted, and when.

use std::time::Duration;

use oarlock_meta::Time;

use super::super::plan::{BURST, New, Plan, plan};
use super::{NOW, details, end, ended, indexed, job, names, of, pod, snapshot};
use crate::project::{PerIndex, Phase};

fn creates(plan: &Plan<'_>) -> Vec<i64> {
    plan.create.iter().filter_map(|new| new.index).collect()
}

#[test]
fn as_many_run_as_are_still_wanted_and_no_more_than_run_at_once() {
    for (parallelism, completions, succeeded, wanted) in [
        (3, Some(10), 0, 3),
        (3, Some(10), 8, 2),
        (3, Some(10), 12, 0),
        (0, Some(5), 0, 0),
        (4, None, 0, 4),
        (4, None, 1, 0),
    ] {
        let job = job(|job| {
            (job.value.parallelism, job.value.completions) = (parallelism, completions);
            job.value.status.succeeded = succeeded;
        });
        let snapshot = snapshot(&job, &[]);
        assert_eq!(plan(&snapshot, NOW).create.len(), wanted, "{parallelism} {completions:?} {succeeded}");
    }
    let many = job(|job| (job.value.parallelism, job.value.completions) = (5_000, Some(9_000)));
    assert_eq!(plan(&snapshot(&many, &[]), NOW).create.len(), BURST);
}

#[test]
fn a_work_queue_that_has_seen_a_success_runs_dry() {
    let job = job(|job| (job.value.parallelism, job.value.completions) = (3, None));
    let pods = [ended("a", Phase::Succeeded, 9_900), pod("b", |_| {}), pod("c", |_| {})];
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot, NOW);
    assert!(plan.create.is_empty() && plan.delete.is_empty() && plan.verdict.is_none());
}

#[test]
fn those_that_have_come_least_far_go_first_and_their_finalizers_before_them() {
    let pods = [
        pod("old", |pod| pod.meta.created = Some(Time::from_unix(1))),
        pod("unassigned", |pod| {
            (pod.value.node, pod.value.phase, pod.value.ready) = ("".into(), Phase::Pending, false);
        }),
        pod("pending", |pod| (pod.value.phase, pod.value.ready) = (Phase::Pending, false)),
        pod("unready", |pod| pod.value.ready = false),
        pod("fresh", |pod| pod.value.ready_since = Some(Time::from_unix(9_990))),
        pod("restarted", |pod| pod.value.restarts = 4),
        pod("new", |_| {}),
    ];
    let job = job(|job| (job.value.parallelism, job.value.completions) = (1, Some(9)));
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot, NOW);
    assert_eq!(names(&plan.delete), ["unassigned", "pending", "unready", "fresh", "restarted", "new"]);
    assert!(plan.release, "who is not wanted any more has not failed");
}

#[test]
fn each_index_has_one_pod_and_the_lowest_come_first() {
    let job = indexed(6, |job| {
        job.value.parallelism = 4;
        job.value.status.completed_indexes = "0,2".into();
    });
    let pods = [of(1, "one", |_| {})];
    assert_eq!(creates(&plan(&snapshot(&job, &pods), NOW)), [3, 4, 5]);
    let pods = [
        of(1, "one", |_| {}),
        of(1, "again", |pod| pod.value.ready = false),
        of(9, "beyond", |_| {}),
        pod("without", |_| {}),
    ];
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot, NOW);
    let mut gone = names(&plan.delete);
    gone.sort_unstable();
    assert_eq!(gone, ["again", "beyond", "without"]);
    assert!(plan.create.is_empty(), "deletions first");
}

#[test]
fn after_a_failure_new_pods_wait_and_longer_each_time() {
    let job = job(|job| (job.value.parallelism, job.value.completions) = (2, Some(5)));
    let now = Time::from_unix(9_905);
    let one = [ended("a", Phase::Failed, 9_900), pod("b", |_| {})];
    let waits = plan(&snapshot(&job, &one), now);
    assert_eq!((waits.create.len(), waits.again), (0, Some(Duration::from_secs(5))));
    let two = [ended("a", Phase::Failed, 9_880), ended("b", Phase::Failed, 9_900)];
    assert_eq!(plan(&snapshot(&job, &two), now).again, Some(Duration::from_secs(15)));
    let success = [ended("a", Phase::Failed, 9_880), ended("b", Phase::Succeeded, 9_900)];
    let goes_on = plan(&snapshot(&job, &success), now);
    assert_eq!((goes_on.create.len(), goes_on.again), (2, None), "a later success ends the pause");
}

#[test]
fn each_index_waits_for_itself_and_carries_its_failures_on() {
    let job = indexed(4, |job| job.value.per_index = Some(PerIndex { limit: 5, max_failed: None }));
    let failed = |index, name: &str, at, failures, ignored| {
        of(index, name, |pod| {
            end(pod, Phase::Failed, at);
            (details(pod).failures, details(pod).ignored) = (failures, ignored);
        })
    };
    let pods = [failed(0, "a", 9_985, 0, 0), failed(1, "b", 9_900, 1, 2), failed(2, "c", 9_995, 0, 0)];
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot, NOW);
    // Index 1 failed 4 times, 100 s ago, and waits for 80.
    let wanted = [(0, (1, 0)), (1, (2, 2)), (3, (0, 0))];
    let wanted = wanted.map(|(index, failures)| New { index: Some(index), failures: Some(failures) });
    assert_eq!(plan.create, wanted);
    assert_eq!(plan.again, Some(Duration::from_secs(5)), "for index 2");
}

#[test]
fn who_is_going_is_replaced_at_once_or_when_it_has_ended() {
    let going = [of(0, "going", |pod| pod.meta.deletion = Some(NOW)), of(1, "other", |_| {})];
    let mut job = indexed(2, |_| {});
    let later = Time::from_unix(10_100);
    assert_eq!(creates(&plan(&snapshot(&job, &going), later)), [0]);
    job.value.replaces_ended_only = true;
    assert!(plan(&snapshot(&job, &going), later).create.is_empty());
}

#[test]
fn a_suspended_job_has_no_pods_and_one_that_is_going_neither_makes_nor_deletes_any() {
    let pods = [pod("a", |_| {}), pod("b", |_| {})];
    let suspended = job(|job| (job.value.suspend, job.value.completions) = (true, Some(5)));
    let suspends = snapshot(&suspended, &pods);
    let plan_of_suspended = plan(&suspends, NOW);
    assert!(plan_of_suspended.delete.len() == 2 && plan_of_suspended.release && plan_of_suspended.managed);
    let going = job(|job| job.meta.deletion = Some(NOW));
    let goes = plan(&snapshot(&going, &[]), NOW);
    assert!(goes.create.is_empty() && goes.delete.is_empty() && !goes.managed);
}

#[test]
fn a_deadline_is_looked_at_in_time() {
    let mut job = job(|job| job.value.deadline = Some(1_030));
    let pods = [pod("a", |_| {})];
    assert_eq!(plan(&snapshot(&job, &pods), NOW).again, Some(Duration::from_secs(30)));
    job.value.suspend = true;
    assert_eq!(plan(&snapshot(&job, &pods), NOW).again, None, "time does not count while it is suspended");
}
