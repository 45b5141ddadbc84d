//! The controller's memory of Jobs: released pods and failures that the caches do not show.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_informer::{Item, Key};
use oarlock_meta::{Revision, Uid};
use parking_lot::Mutex;

use super::backoff::Record;
use super::snapshot::{Pod, number};
use crate::project::{Job, JobState};

/// Entries of Jobs that this process does not reconcile any more are removed each time the number of entries reaches a power of two of at least this many.
const SWEEP_FROM_ENTRIES: usize = 1024;

/// The controller's memory of Jobs. A Job has an entry until the Job is finished or deleted.
#[derive(Debug, Default)]
pub(super) struct Memory {
    of: Mutex<BTreeMap<Key, Known>>,
}

/// The memory of one Job.
#[derive(Debug, Default)]
struct Known {
    /// The pods without finalizers, each with the revision of the removal; `None` if the pod is deleted.
    released: BTreeMap<Uid, Option<Revision>>,
    /// The failures, with the counts of the status in which they were entered.
    record: Option<(Counted, Record)>,
}

/// The Job's uid with the successes and failures entered in a status. Another process that counts further changes these numbers, which invalidates an
/// older record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted(Uid, i64, i64);

impl Counted {
    fn of(uid: &Uid, status: &JobState) -> Self {
        let entered = |counted: i64, uids: &[Uid]| counted + number(uids.len());
        let succeeded = entered(status.succeeded, &status.uncounted_succeeded);
        Self(uid.clone(), succeeded, entered(status.failed, &status.uncounted_failed))
    }
}

impl Memory {
    /// Forgets a Job that is not reconciled any more.
    pub(super) fn forget(&self, key: &Key) {
        self.of.lock().remove(key);
    }

    /// Forgets the Jobs for which `decided` returns false, if there are many entries.
    pub(super) fn sweep(&self, decided: impl Fn(&Key) -> bool) {
        let mut all = self.of.lock();
        if all.len() >= SWEEP_FROM_ENTRIES && all.len().is_power_of_two() {
            all.retain(|key, _| decided(key));
        }
    }

    /// Records that a pod of a Job lost its finalizer at this revision, or is deleted, so that a stale cache does not make the pod count again.
    pub(super) fn release(&self, key: &Key, pod: &Uid, at: Option<Revision>) {
        self.of.lock().entry(key.clone()).or_default().released.insert(pod.clone(), at);
    }

    /// Returns the pods of a Job that the cache still shows with finalizers that were removed.
    pub(super) fn released(&self, key: &Key, pods: &[Pod]) -> BTreeSet<Uid> {
        let mut all = self.of.lock();
        let Some(known) = all.get_mut(key) else { return BTreeSet::new() };
        let shown: BTreeMap<&Uid, Revision> = pods.iter().map(|pod| (&pod.meta.uid, pod.meta.revision)).collect();
        let behind = |uid: &Uid, at: &mut Option<Revision>| {
            shown.get(uid).is_some_and(|shown| at.is_none_or(|gone| *shown < gone))
        };
        known.released.retain(behind);
        known.released.keys().cloned().collect()
    }

    /// Returns the failures of a Job that are entered in its status.
    pub(super) fn record(&self, job: &Item<Job>) -> Option<Record> {
        let all = self.of.lock();
        let (counted, record) = all.get(job.key())?.record.as_ref()?;
        (*counted == Counted::of(&job.meta.uid, &job.value.status)).then_some(*record)
    }

    /// Records the failures that are entered in a written status.
    pub(super) fn entered(&self, job: &Item<Job>, status: &JobState, record: Record) {
        let counted = Counted::of(&job.meta.uid, status);
        self.of.lock().entry(job.key().clone()).or_default().record = Some((counted, record));
    }
}
