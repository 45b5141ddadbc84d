//! Table tests of the job controller's rules, and simulations of whole Jobs.

mod books;
mod lives;
mod plan;
mod verdict;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Time, Uid};

use super::snapshot::{Pod, Snapshot};
use crate::project::{Job, JobPod, Mode, Phase, PodView, TRACKING};

/// The current time in the tests.
pub(super) const NOW: Time = Time::from_unix(10_000);

/// A Job of one pod with an early start time.
pub(super) fn job(change: impl FnOnce(&mut Item<Job>)) -> Item<Job> {
    let mut value = Job { parallelism: 1, completions: Some(1), backoff_limit: 6, ..Job::default() };
    value.status.started = Some(Time::from_unix(9_000));
    let meta = ObjMeta { key: Key::new("ns", "work"), uid: Uid::from("job"), ..ObjMeta::default() };
    let mut item = Item { meta, value };
    change(&mut item);
    item
}

/// An indexed Job that runs all its indexes at once.
pub(super) fn indexed(completions: i64, change: impl FnOnce(&mut Item<Job>)) -> Item<Job> {
    job(|job| {
        job.value.mode = Mode::Indexed;
        (job.value.completions, job.value.parallelism) = (Some(completions), completions);
        change(job);
    })
}

/// A running pod with the tracking finalizer.
pub(super) fn pod(name: &str, change: impl FnOnce(&mut Item<PodView>)) -> Pod {
    let value = PodView {
        node: "n1".into(),
        phase: Phase::Running,
        ready: true,
        ready_since: Some(Time::from_unix(9_100)),
        job: Some(Box::default()),
        ..PodView::default()
    };
    let meta = ObjMeta {
        key: Key::new("ns", name),
        uid: Uid::from(name),
        created: Some(Time::from_unix(9_050)),
        finalizers: Box::new([TRACKING.into()]),
        ..ObjMeta::default()
    };
    let mut item = Item { meta, value };
    change(&mut item);
    Arc::new(item)
}

/// Returns the Job-specific fields of a pod.
pub(super) fn details(pod: &mut Item<PodView>) -> &mut JobPod {
    pod.value.job.get_or_insert_default()
}

/// A pod that has ended.
pub(super) fn ended(name: &str, phase: Phase, at: i64) -> Pod {
    pod(name, |pod| end(pod, phase, at))
}

pub(super) fn end(pod: &mut Item<PodView>, phase: Phase, at: i64) {
    (pod.value.phase, pod.value.ready) = (phase, false);
    details(pod).finished = Some(Time::from_unix(at));
}

/// A pod of an index.
pub(super) fn of(index: i64, name: &str, change: impl FnOnce(&mut Item<PodView>)) -> Pod {
    pod(name, |pod| {
        details(pod).index = Some(index);
        change(pod);
    })
}

pub(super) fn snapshot<'a>(job: &'a Item<Job>, pods: &'a [Pod]) -> Snapshot<'a> {
    Snapshot::at(job, pods, &BTreeSet::new(), None, NOW)
}

pub(super) fn names<'a>(pods: &[&'a Pod]) -> Vec<&'a str> {
    pods.iter().map(|pod| pod.meta.name()).collect()
}
