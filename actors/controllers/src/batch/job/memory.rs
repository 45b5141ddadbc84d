//! What is known of Jobs beyond what the caches show.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_informer::{Item, Key};
use oarlock_meta::{Revision, Uid};
use parking_lot::Mutex;

use super::backoff::Record;
use super::look::{Pod, number};
use crate::project::{Job, JobState};

/// From this many entries on, those of Jobs that need none any more are swept out now and then: their units may have gone to others.
const SWEEP: usize = 1024;

/// See the module text. A Job has an entry until it is finished or gone.
#[derive(Debug, Default)]
pub(super) struct Memory {
    of: Mutex<BTreeMap<Key, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Pods whose finalizers are gone, and since when; `None`: with the pod.
    released: BTreeMap<Uid, Option<Revision>>,
    /// Failures, and up to where they were counted.
    record: Option<(Counted, Record)>,
}

/// How many successes and failures a status of a Job has entered: whoever counts on changes it, and what another process knew is void.
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
    /// Nothing will be decided for the Job any more.
    pub(super) fn forget(&self, key: &Key) {
        self.of.lock().remove(key);
    }

    /// Forgets Jobs for which nothing is decided any more, if there are many entries.
    pub(super) fn sweep(&self, decided: impl Fn(&Key) -> bool) {
        let mut all = self.of.lock();
        if all.len() >= SWEEP && all.len().is_power_of_two() {
            all.retain(|key, _| decided(key));
        }
    }

    /// A pod of a Job has lost its finalizer at this revision, or is gone. A cache that is behind must not make it count again.
    pub(super) fn release(&self, key: &Key, pod: &Uid, at: Option<Revision>) {
        self.of.lock().entry(key.clone()).or_default().released.insert(pod.clone(), at);
    }

    /// The pods of a Job that have lost their finalizers although the cache shows them.
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

    /// The failures of a Job that its status has entered.
    pub(super) fn record(&self, job: &Item<Job>) -> Option<Record> {
        let all = self.of.lock();
        let (counted, record) = all.get(job.key())?.record.as_ref()?;
        (*counted == Counted::of(&job.meta.uid, &job.value.status)).then_some(*record)
    }

    /// A status was written that has entered these failures.
    pub(super) fn entered(&self, job: &Item<Job>, status: &JobState, record: Record) {
        let counted = Counted::of(&job.meta.uid, status);
        self.of.lock().entry(job.key().clone()).or_default().record = Some((counted, record));
    }
}
