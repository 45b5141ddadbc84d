//! Simulations of whole Jobs, with a stop of the controller after each of its writes.

use oarlock_informer::Item;

use super::world::{World, kubelet};
use super::{NOW, indexed, job};
use crate::project::{Job, PerIndex};

/// Simulates a Job once undisturbed, and once for each of the writes with a stop after the write.
fn with_every_stop(job: &Item<Job>, fails: impl Fn(usize) -> bool + Copy, check: impl Fn(&World, &str)) {
    let mut calm = World::new(job.clone());
    calm.writes_left = 1_000;
    calm.live(|world| kubelet(world, fails));
    check(&calm, "undisturbed");
    for stop in 0..1_000 - calm.writes_left {
        let mut world = World::new(job.clone());
        world.writes_left = stop;
        world.live(|world| kubelet(world, fails));
        check(&world, &format!("stopped after {stop} writes"));
    }
}

#[test]
fn a_restart_after_any_write_counts_every_pod_once() {
    let job = job(|job| (job.value.completions, job.value.parallelism) = (Some(6), 3));
    with_every_stop(
        &job,
        |number| number % 4 == 2,
        |world, when| {
            let status = &world.job.value.status;
            assert!(status.stands("Complete").is_some(), "{when}: {status:?}");
            assert_eq!((status.succeeded, status.failed), (6, 2), "{when}");
            assert_eq!((status.active, world.finalizers()), (0, 0), "{when}");
            assert_eq!(world.made, 8, "{when}");
        },
    );
}

#[test]
fn a_restart_after_any_write_does_every_index_once() {
    let job = indexed(5, |job| job.value.parallelism = 2);
    with_every_stop(
        &job,
        |number| number == 3,
        |world, when| {
            let status = &world.job.value.status;
            assert!(status.stands("Complete").is_some(), "{when}: {status:?}");
            assert_eq!((status.completed_indexes.as_str(), status.succeeded, status.failed), ("0-4", 5, 1), "{when}");
            assert_eq!((world.finalizers(), world.made), (0, 6), "{when}");
        },
    );
}

#[test]
fn a_failing_job_counts_its_last_pods_and_ends_when_they_are_gone() {
    let job = job(|job| {
        (job.value.completions, job.value.parallelism, job.value.backoff_limit) = (Some(9), 3, 1);
    });
    with_every_stop(
        &job,
        |number| number % 3 != 0,
        |world, when| {
            let status = &world.job.value.status;
            assert!(
                status.stands("Failed").is_some() && status.stands("FailureTarget").is_some(),
                "{when}: {status:?}"
            );
            assert_eq!(status.stands("Failed").unwrap().reason, "BackoffLimitExceeded");
            // At the end all pods are counted, those that were still running as failures.
            let counted = usize::try_from(status.succeeded + status.failed).unwrap();
            assert!(counted == world.made && status.failed >= 2 && status.active == 0, "{when}: {status:?}");
            assert_eq!((status.terminating, world.finalizers()), (Some(0), 0), "{when}");
        },
    );
}

#[test]
fn an_index_that_fails_too_often_is_given_up_and_the_others_go_on() {
    let job = indexed(3, |job| {
        job.value.per_index = Some(PerIndex { limit: 1, max_failed: None });
        job.value.backoff_limit = i64::from(i32::MAX);
    });
    // The pods of index 1: the second pod, and its replacement.
    with_every_stop(
        &job,
        |number| number == 2 || number == 4,
        |world, when| {
            let status = &world.job.value.status;
            assert_eq!(status.stands("Failed").unwrap().reason, "FailedIndexes", "{when}");
            assert_eq!(status.completed_indexes, "0,2", "{when}");
            assert_eq!(status.failed_indexes.as_deref(), Some("1"), "{when}");
            assert_eq!((status.failed, world.made, world.finalizers()), (2, 4, 0), "{when}");
        },
    );
}

#[test]
fn pods_that_users_delete_are_failures_and_what_is_not_wanted_is_none() {
    let mut world = World::new(job(|job| (job.value.completions, job.value.parallelism) = (Some(3), 3)));
    world.reconcile().unwrap();
    let first = world.pods[0].meta.uid.clone();
    world.run(|pod, now| {
        if pod.meta.uid == first {
            pod.meta.deletion = Some(now);
        }
    });
    world.live(|world| kubelet(world, |_| false));
    assert_eq!((world.job.value.status.succeeded, world.job.value.status.failed), (3, 1));
    let mut world = World::new(job(|job| (job.value.completions, job.value.parallelism) = (Some(3), 3)));
    world.reconcile().unwrap();
    world.job.value.suspend = true;
    world.reconcile().unwrap();
    kubelet(&mut world, |_| false);
    world.reconcile().unwrap();
    let status = &world.job.value.status;
    assert_eq!((status.active, status.terminating, status.failed), (0, Some(0), 0));
    assert!(status.stands("Suspended").is_some() && world.pods.is_empty());
    world.job.value.suspend = false;
    world.now = NOW;
    world.reconcile().unwrap();
    let status = &world.job.value.status;
    assert!(status.stands("Suspended").is_none() && status.started == Some(NOW), "the clock begins anew: {status:?}");
    world.live(|world| kubelet(world, |_| false));
    assert_eq!(world.job.value.status.succeeded, 3);
}
