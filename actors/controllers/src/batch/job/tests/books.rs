//! Tests of the counting of pods.

use std::collections::BTreeSet;

use oarlock_informer::Item;
use oarlock_meta::{Revision, Uid};

use super::super::account::{MAX_UNCOUNTED, Open, Outcome, SuspendChange, open};
use super::super::memory::Memory;
use super::super::plan::plan;
use super::super::snapshot::{Pod, Snapshot};
use super::{NOW, end, ended, indexed, job, names, of, pod, snapshot};
use crate::project::{Job, Phase};

/// Returns the first status of a Job whose plan was carried out without failures.
fn books<'a>(snapshot: &Snapshot<'a>) -> Open<'a> {
    let plan = plan(snapshot, NOW);
    let ready = plan.delete.iter().filter(|pod| pod.value.ready).count();
    let number = |count: usize| i64::try_from(count).unwrap();
    let outcome = Outcome {
        created: number(plan.create.len()),
        deleted: number(plan.delete.len()),
        deleted_ready: number(ready),
    };
    open(snapshot, &plan, outcome, NOW)
}

fn all(pods: &[&Pod]) -> BTreeSet<Uid> {
    pods.iter().map(|pod| pod.meta.uid.clone()).collect()
}

fn many(count: usize, phase: Phase) -> Vec<Pod> {
    (0..count).map(|at| ended(&format!("pod-{at:04}"), phase, 9_000)).collect()
}

#[test]
fn uids_are_entered_first_and_numbers_follow_when_the_finalizers_are_gone() {
    let job = job(|job| (job.value.completions, job.value.parallelism) = (Some(5), 2));
    let pods = [ended("bad", Phase::Failed, 9_000), ended("good", Phase::Succeeded, 9_100)];
    let snapshot = snapshot(&job, &pods);
    let mut books = books(&snapshot);
    let status = &books.status;
    assert_eq!((status.succeeded, status.failed), (0, 0), "not before");
    assert_eq!((&status.uncounted_succeeded, &status.uncounted_failed), (&vec!["good".into()], &vec!["bad".into()]));
    assert_eq!(names(&books.release), ["bad", "good"]);
    assert!(!books.close(&snapshot, &BTreeSet::from(["good".into()]), NOW));
    let status = &books.status;
    assert_eq!((status.succeeded, status.failed), (1, 0));
    assert_eq!((status.uncounted_succeeded.len(), status.uncounted_failed.len()), (0, 1), "one finalizer stayed");
}

#[test]
fn a_job_is_finished_when_all_its_pods_are_counted_and_gone() {
    let mut last = job(|job| job.value.status.succeeded = 0);
    let pods = [ended("good", Phase::Succeeded, 9_000)];
    let looked = snapshot(&last, &pods);
    let mut done = books(&looked);
    assert!(done.status.stands("SuccessCriteriaMet").is_some() && done.status.finished().is_none());
    assert!(!done.close(&looked, &BTreeSet::new(), NOW), "its finalizer is still there");
    assert!(done.close(&looked, &all(&done.release.clone()), NOW));
    assert_eq!((done.status.completed, done.status.succeeded), (Some(NOW), 1));
    last.value.parallelism = 2;
    let going = [pods[0].clone(), pod("going", |pod| pod.meta.deletion = Some(NOW))];
    let looked = snapshot(&last, &going);
    let mut waits = books(&looked);
    assert!(!waits.close(&looked, &all(&waits.release.clone()), NOW), "a pod is still on its way out");
    assert_eq!(waits.status.terminating, Some(1));
}

#[test]
fn at_the_end_of_a_failed_job_every_pod_that_is_left_has_failed() {
    let failing = job(|job| (job.value.backoff_limit, job.value.parallelism, job.value.completions) = (0, 3, Some(3)));
    let pods = [ended("a", Phase::Failed, 9_000), pod("b", |_| {}), pod("c", |_| {})];
    let looked = snapshot(&failing, &pods);
    let books_of_failing = books(&looked);
    assert_eq!(books_of_failing.status.uncounted_failed.len(), 3);
    assert_eq!((books_of_failing.status.active, books_of_failing.status.terminating), (0, Some(2)));
    // Pods that the success policy makes superfluous do not count as failed.
    let met = indexed(3, |job| {
        job.value.success_policy = Box::new([crate::project::SuccessRule { indexes: None, count: Some(1) }])
    });
    let pods = [of(0, "a", |pod| end(pod, Phase::Succeeded, 9_000)), of(1, "b", |_| {}), of(2, "c", |_| {})];
    let looked = snapshot(&met, &pods);
    let books_of_met = books(&looked);
    assert!(books_of_met.status.uncounted_failed.is_empty());
    assert_eq!((books_of_met.release.len(), books_of_met.status.completed_indexes.as_str()), (3, "0"));
}

#[test]
fn a_status_holds_so_many_uids_and_the_rest_waits() {
    let job = job(|job| (job.value.completions, job.value.parallelism) = (Some(700), 700));
    let pods = many(700, Phase::Succeeded);
    let looked = snapshot(&job, &pods);
    let mut books = books(&looked);
    assert_eq!((books.release.len(), books.status.uncounted_succeeded.len()), (MAX_UNCOUNTED, MAX_UNCOUNTED));
    assert!(!books.close(&looked, &all(&books.release.clone()), NOW), "others are left");
    assert_eq!(books.status.succeeded, 500);
}

#[test]
fn a_cache_that_is_behind_counts_nothing_again() {
    let mut counted = job(|job| (job.value.completions, job.value.parallelism) = (Some(5), 2));
    counted.value.status.failed = 1;
    let shown = [pod("a", |pod| {
        end(pod, Phase::Failed, 9_000);
        pod.meta.revision = Revision(10);
    })];
    let memory = Memory::default();
    memory.release(counted.key(), &"a".into(), Some(Revision(11)));
    let at = |pods: &[Pod]| {
        let released = memory.released(counted.key(), pods);
        Snapshot::at(&counted, pods, &released, None, NOW).failed
    };
    assert_eq!(at(&shown), 1);
    // A pod that was adopted again has the finalizer for another reason.
    let anew = [pod("a", |pod| {
        end(pod, Phase::Failed, 9_000);
        pod.meta.revision = Revision(12);
    })];
    assert_eq!(at(&anew), 2);
    memory.release(counted.key(), &"a".into(), None);
    assert_eq!(at(&anew), 1, "it is gone, whatever is shown");
}

#[test]
fn failures_that_another_process_counted_are_read_from_the_pods() {
    let memory = Memory::default();
    let mut held: Item<Job> = job(|job| (job.value.completions, job.value.parallelism) = (Some(5), 1));
    held.value.status.failed = 2;
    let bare = |name: &str, at| {
        pod(name, |pod| {
            end(pod, Phase::Failed, at);
            pod.meta.finalizers = Box::default();
        })
    };
    let pods = [bare("a", 9_900), bare("b", 9_990)];
    let looked = Snapshot::at(&held, &pods, &BTreeSet::new(), memory.record(&held), NOW);
    assert_eq!((looked.backoff.failures, looked.failed), (2, 2));
    let status = held.value.status.clone();
    memory.entered(&held, &status, super::super::backoff::Record { failures: 7, last: Some(NOW) });
    assert_eq!(memory.record(&held).map(|record| record.failures), Some(7));
    held.value.status.failed = 3;
    assert_eq!(memory.record(&held), None, "somebody else has counted since");
}

#[test]
fn jobs_that_ended_elsewhere_are_forgotten_when_there_are_many() {
    let memory = Memory::default();
    let key = |number: usize| oarlock_informer::Key::new("ns", format!("job-{number}"));
    for number in 0..1024 {
        memory.sweep(|_| false);
        memory.release(&key(number), &"a".into(), None);
    }
    let shown = [pod("a", |_| {})];
    assert_eq!(memory.released(&key(0), &shown).len(), 1, "there was room");
    memory.sweep(|other| *other == key(7));
    assert_eq!([0, 7].map(|number| memory.released(&key(number), &shown).len()), [0, 1]);
}

#[test]
fn suspension_is_told_once_and_time_begins_anew() {
    let mut job = job(|job| job.value.suspend = true);
    let suspended = books(&snapshot(&job, &[])).status;
    assert!(suspended.stands("Suspended").is_some());
    assert_eq!(books(&snapshot(&job, &[])).suspend_change, Some(SuspendChange::Suspended));
    job.value.status = suspended;
    assert_eq!(books(&snapshot(&job, &[])).suspend_change, None);
    job.value.suspend = false;
    let looked = snapshot(&job, &[]);
    let resumed = books(&looked);
    assert_eq!((resumed.suspend_change, resumed.status.started), (Some(SuspendChange::Resumed), Some(NOW)));
    let condition = &resumed.status.conditions[0];
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "JobResumed"));
}

#[test]
fn a_job_that_never_was_suspended_has_no_word_about_it() {
    let job = job(|_| {});
    assert!(books(&snapshot(&job, &[])).status.conditions.is_empty());
}
