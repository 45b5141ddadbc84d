//! Writes pods' statuses and deletes pods: one call per pod at a time, only after changes, with a bound on concurrent calls.

use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{DeleteOptions, PatchType, WriteOptions};
use oarlock_meta::Status;
use oarlock_runtime::kind::Backoff;
use oarlock_runtime::{Instant, rng};

use super::{Done, Entry, Node, Now, Uid};
use crate::pod::{Host, Pod, Step};
use crate::trace::Life;

/// Largest number of concurrent calls for pods.
const MAX_CONCURRENT_CALLS: usize = 16;
/// Delay of writing a pod's status during a step, so that changes in quick succession cause one write.
const STEP_WRITE_DELAY: Duration = Duration::from_millis(100);
/// Pauses after failed writes.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };

/// A status that was sent to the API.
pub(super) struct Written {
    /// Fingerprint of the status.
    mark: u64,
    /// The end of the pod's change, if the status is the first to show it: the change's generation, and the spans that end with it; no spans when tracing is off.
    end: Option<(i64, Option<End>)>,
}

/// The spans that end with a pod's change.
struct End {
    life: Life,
    /// When the change began.
    began: Instant,
    /// When the wait for readiness began: the end of the last step. `None` for a pod that has ended instead.
    waited: Option<Instant>,
    /// Why the pod has failed.
    failure: Option<String>,
}

impl End {
    fn record(&self) {
        if let Some(waited) = self.waited {
            self.life.record("ready", [], waited, None);
        }
        self.life.record_root(self.began, self.failure.as_deref());
    }
}

impl Entry {
    /// Returns the end of the pod's change, if the computed status is the first to show it. A graceful deletion is a change too, which ends with the pod's removal:
    /// the API server records it.
    fn end(&self, node: &Arc<str>) -> Option<(i64, Option<End>)> {
        let (pod, generation): (&Pod, i64) = (&self.pod, self.pod.api_identity().1);
        if generation == self.settled || !pod.is_settled() || pod.item.meta.deleting() {
            return None;
        }
        let end = |life| End {
            life,
            began: self.arrived,
            waited: pod.is_ready().then_some(self.since),
            failure: pod.failure(),
        };
        Some((generation, Life::of(pod, node).map(end)))
    }
}

impl Node {
    pub(super) fn host(&self) -> Host<'_> {
        Host { ip: &self.host_ip, runtime: &self.runtime_name }
    }

    /// Begins the writes that are due.
    pub(super) fn flush(&mut self, now: Now) {
        let mut after = None;
        while self.writing < MAX_CONCURRENT_CALLS {
            let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let Some(uid) = self.dirty.range((from, std::ops::Bound::Unbounded)).next().copied() else { return };
            after = Some(uid);
            self.consider(uid, now);
        }
    }

    /// Writes a pod's status or deletes the pod, if due; a pod that must wait stays dirty.
    fn consider(&mut self, uid: Uid, now: Now) {
        let Some(entry) = self.pods.get_mut(&uid) else {
            self.dirty.remove(&uid);
            return;
        };
        if entry.pod.gone || entry.writing || !entry.admitted {
            self.dirty.remove(&uid);
            return;
        }
        let busy = entry.pod.busy.as_ref().is_some_and(|step| !matches!(step, Step::Recall));
        let settled = entry.dirty.map(|since| since + STEP_WRITE_DELAY).filter(|at| busy && *at > now.at);
        if let Some(at) = settled.into_iter().chain(entry.hold.filter(|at| *at > now.at)).max() {
            // The timer comes back to this pod.
            if entry.wake.is_none_or(|wake| at < wake) {
                if let Some(old) = entry.wake.replace(at) {
                    self.timers.remove(&(old, uid));
                }
                self.timers.insert((at, uid));
            }
            return;
        }
        if matches!(entry.pod.busy, Some(Step::Recall)) {
            return;
        }
        entry.dirty = None;
        self.dirty.remove(&uid);
        if entry.is_static && !self.has_mirror(uid) {
            return;
        }
        let host = Host { ip: &self.host_ip, runtime: &self.runtime_name };
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let (body, mark) = entry.pod.status(host, now);
        let meta = &entry.pod.item.meta;
        let (namespace, name) = (meta.key.namespace.clone(), meta.key.name.clone());
        let (parts, pods) = (self.parts.clone(), self.resources.pods);
        if mark != entry.written {
            entry.writing = true;
            self.writing += 1;
            let written = Written { mark, end: entry.end(&self.tools.node) };
            self.work.push(Box::pin(async move {
                let body = (PatchType::Strategic, body);
                let key = (namespace.as_str(), name.as_str());
                let result = parts.client.patch(pods, "status", key, body, WriteOptions::default()).await;
                Done::Written { uid, written, result: result.map(|object| object.revision.get()) }
            }));
        } else if entry.pod.to_be_deleted() {
            entry.writing = true;
            self.writing += 1;
            let options = DeleteOptions::uid(meta.uid.0.clone()).grace(0);
            self.work.push(Box::pin(async move {
                let result = parts.client.delete(pods, &namespace, &name, options).await;
                Done::Deleted { uid, result: result.map(|_| ()) }
            }));
        }
    }

    pub(super) fn wrote(&mut self, uid: Uid, written: Written, result: Result<u64, Status>, now: Now) {
        self.writing -= 1;
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.writing = false;
        match result {
            Ok(revision) => {
                (entry.written, entry.revision) = (written.mark, revision);
                if let Some((generation, end)) = written.end {
                    entry.settled = generation;
                    end.iter().for_each(End::record);
                }
                (entry.failures, entry.hold) = (0, None);
                // The status may have changed during the write, or the deletion may be due.
                entry.dirty.get_or_insert(now.at);
                self.dirty.insert(uid);
            }
            // The watch will report the removal; another pod of the same name is a different pod.
            Err(status) if status.is_not_found() || entry.is_static && status.is_conflict() => {}
            Err(status) => self.failed(uid, &status, now),
        }
    }

    pub(super) fn deleted(&mut self, uid: Uid, result: Result<(), Status>, now: Now) {
        self.writing -= 1;
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.writing = false;
        match result {
            // Finalizers may delay the removal; the watch reports any change.
            Ok(()) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => self.failed(uid, &status, now),
        }
    }

    pub(super) fn failed(&mut self, uid: Uid, status: &Status, now: Now) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let pause = rng::jitter(BACKOFF.pause(entry.failures), 50);
        let asked = Duration::from_secs(status.retry_after().unwrap_or(0).into());
        entry.hold = Some(now.at + pause.max(asked));
        entry.dirty.get_or_insert(now.at);
        self.dirty.insert(uid);
        tracing::warn!(node = %self.parts.config.name, pod = %entry.pod.item.key(), %status, "pod not written");
    }
}
