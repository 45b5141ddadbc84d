//! A snapshot of a Job and its pods, with the counts that decisions need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::{Time, Uid};

use super::backoff::{self, Record};
use super::indexes::Indexes;
use super::policy::{Handling, fails_index, handling, index, valid_index};
use crate::project::{Job, Phase, PodView, TRACKING, active};

/// A cached pod.
pub(super) type Pod = Arc<Item<PodView>>;

/// A Job with its pods at one moment, sorted and counted.
pub(super) struct Snapshot<'a> {
    /// The Job.
    pub(super) job: &'a Item<Job>,
    /// The Job's pods; of indexed Jobs in the order of indexes.
    pub(super) pods: Vec<&'a Pod>,
    /// The uids of pods with the tracking finalizer, except finalizers known to be removed.
    pub(super) tracked: BTreeSet<&'a Uid>,
    /// The active pods: neither ended nor being deleted.
    pub(super) active: Vec<&'a Pod>,
    /// The number of terminating pods.
    pub(super) terminating: i64,
    /// The succeeded pods (in indexed Jobs indexes), including those that are not in the status yet.
    pub(super) succeeded: i64,
    /// The counted failures, including those that are not in the status yet.
    pub(super) failed: i64,
    /// The succeeded indexes in the status.
    pub(super) done_before: Indexes,
    /// All succeeded indexes.
    pub(super) done: Indexes,
    /// The indexes that have failed for good, if the Job limits failures per index.
    pub(super) failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that will be retried. The pod is kept until its replacement has taken over the count of failures.
    pub(super) last_failed: BTreeMap<i64, &'a Pod>,
    /// The failures since the last success.
    pub(super) backoff: Record,
}

/// Whether a pod has failed. A terminating pod counts as failed unless pods are replaced only when they have ended (upstream `isPodFailed`).
pub(super) fn failed(job: &Job, pod: &Item<PodView>) -> bool {
    let going = pod.meta.deleting() && pod.value.phase != Phase::Succeeded;
    pod.value.phase == Phase::Failed || (going && !job.replaces_ended_only)
}

fn succeeded(pod: &Item<PodView>) -> bool {
    pod.value.phase == Phase::Succeeded
}

/// Whether a pod is being deleted and has not ended.
pub(super) fn terminating(pod: &Item<PodView>) -> bool {
    pod.meta.deleting() && !pod.value.terminal()
}

impl<'a> Snapshot<'a> {
    /// Takes a snapshot of a Job and the pods that it controls. The finalizers of the pods `released` count as removed even if the cache shows them. `record`
    /// holds the known failures that have been counted.
    pub(super) fn at(
        job: &'a Item<Job>,
        pods: &'a [Pod],
        released: &BTreeSet<Uid>,
        record: Option<Record>,
        now: Time,
    ) -> Self {
        let mut pods: Vec<&Pod> = pods.iter().collect();
        if job.value.indexed() {
            pods.sort_by_key(|pod| index(pod));
        }
        let carries = |pod: &&&Pod| pod.meta.finalizers.iter().any(|one| one == TRACKING);
        let tracked = pods.iter().filter(carries).map(|pod| &pod.meta.uid).filter(|uid| !released.contains(*uid));
        let mut snapshot = Self {
            job,
            tracked: tracked.collect(),
            active: pods.iter().copied().filter(|pod| active(pod)).collect(),
            terminating: number(pods.iter().filter(|pod| terminating(pod)).count()),
            pods,
            succeeded: 0,
            failed: 0,
            done_before: Indexes::default(),
            done: Indexes::default(),
            failed_indexes: None,
            last_failed: BTreeMap::new(),
            backoff: Record::default(),
        };
        snapshot.count(record, now);
        snapshot.index();
        snapshot
    }

    /// Whether a pod must still be counted, and can be.
    fn uncounted(&self, pod: &Pod) -> bool {
        let valid = !self.job.value.indexed() || valid_index(&self.job.value, pod).is_some();
        valid && self.tracked.contains(&pod.meta.uid)
    }

    fn count(&mut self, record: Option<Record>, now: Time) {
        let (job, status) = (&self.job.value, &self.job.value.status);
        let all = |ended: &dyn Fn(&Pod) -> bool, known: &[Uid]| -> (Vec<&'a Pod>, Vec<&'a Pod>) {
            let ended = self.pods.iter().copied().filter(|pod| ended(pod));
            ended.partition(|pod| self.uncounted(pod) && !known.contains(&pod.meta.uid))
        };
        let (good, good_before) = all(&|pod| succeeded(pod), &status.uncounted_succeeded);
        let (bad, bad_before) = all(&|pod| failed(job, pod), &status.uncounted_failed);
        let items = |pods: &[&'a Pod]| pods.iter().map(|pod| &***pod).collect::<Vec<&'a Item<PodView>>>();
        let before = record.unwrap_or_else(|| Record::default().after(items(&good_before), items(&bad_before)));
        let counts = bad.iter().filter(|pod| handling(job, pod) != Handling::Ignored).count();
        self.succeeded = status.succeeded + number(good.len() + status.uncounted_succeeded.len());
        self.failed = status.failed + number(counts + status.uncounted_failed.len());
        self.backoff = before.after(items(&good), items(&bad)).until(now);
    }

    fn index(&mut self) {
        let job = &self.job.value;
        if !job.indexed() {
            return;
        }
        let completions = job.completions.unwrap_or(0);
        let new = |test: &dyn Fn(&Pod) -> bool| -> Indexes {
            let pods = self.pods.iter().filter(|pod| self.uncounted(pod) && test(pod));
            pods.filter_map(|pod| valid_index(job, pod)).collect()
        };
        let before = Indexes::parse(&job.status.completed_indexes, completions);
        let done = before.and(&new(&|pod| succeeded(pod)));
        let failed_indexes = job.per_index.map(|per| {
            let before = Indexes::parse(job.status.failed_indexes.as_deref().unwrap_or(""), completions);
            before.and(&new(&|pod| failed(job, pod) && fails_index(job, per.limit, pod)))
        });
        self.succeeded = done.total();
        (self.done_before, self.done) = (before, done);
        if let Some(failed_indexes) = &failed_indexes {
            self.last_failed = self.last_failed(failed_indexes);
        }
        self.failed_indexes = failed_indexes;
    }

    /// Returns the indexes that have an active pod.
    pub(super) fn running(&self) -> Indexes {
        self.active.iter().filter_map(|pod| index(pod)).collect()
    }

    fn last_failed(&self, failed_indexes: &Indexes) -> BTreeMap<i64, &'a Pod> {
        let job = &self.job.value;
        let running = self.running();
        let mut last: BTreeMap<i64, &'a Pod> = BTreeMap::new();
        for pod in self.pods.iter().copied().filter(|pod| self.uncounted(pod) && failed(job, pod)) {
            let Some(index) = valid_index(job, pod) else { continue };
            if self.done.has(index) || failed_indexes.has(index) || running.has(index) {
                continue;
            }
            let other = last.entry(index).or_insert(pod);
            if failures(other) <= failures(pod) && backoff::finished(other) <= backoff::finished(pod) {
                *other = pod;
            }
        }
        last
    }

    /// The number of active pods that are ready.
    pub(super) fn ready(&self) -> i64 {
        number(self.active.iter().filter(|pod| pod.value.ready).count())
    }
}

/// The number of all earlier failures of a pod's index.
pub(super) fn failures(pod: &Item<PodView>) -> i64 {
    pod.value.job.as_ref().map_or(0, |details| details.failures.saturating_add(details.ignored))
}

/// Converts a count to the API's number type.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
