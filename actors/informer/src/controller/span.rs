//! The span `reconcile` in the life of the object that has the reconciled key (`docs/adr/0007-traces.md`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oarlock_meta::Status;
use oarlock_runtime::Failure;
use oarlock_runtime::clock::{self, Instant};
use oarlock_telemetry::traces::{self, Step, Subject};

use crate::cache::Cache;
use crate::item::Item;
use crate::key::Key;
use crate::obj_meta::ObjMeta;
use crate::project::Project;

/// Finds the kind and the metadata of the object that has a key.
type Find = dyn Fn(&Key) -> Option<(&'static str, Meta)> + Send + Sync;

/// The metadata of the object of a life.
struct Meta {
    uid: String,
    generation: i64,
}

impl From<&ObjMeta> for Meta {
    fn from(meta: &ObjMeta) -> Self {
        Self { uid: meta.uid.as_str().to_owned(), generation: meta.generation }
    }
}

/// The caches of a controller that contain the objects of its keys.
#[derive(Default)]
pub(super) struct Subjects(Vec<Box<Find>>);

impl Subjects {
    /// Adds a cache; the first cache that has an object under a key counts.
    pub(super) fn add<T: Project>(&mut self, cache: &Arc<Cache<T>>) {
        let Some(resource) = T::RESOURCE.find() else { return };
        let cache = cache.clone();
        let meta = |item: Arc<Item<T>>| (resource.kind, Meta::from(&item.meta));
        self.0.push(Box::new(move |key| cache.get(key).map(meta)));
    }

    /// Begins the span of a reconcile whose key was taken from the queue at `taken` after a wait; `None` if tracing is off or no object has the key.
    pub(super) fn begin(
        &self,
        controller: &'static str,
        key: &Key,
        (taken, waited): (Instant, Duration),
    ) -> Option<ReconcileSpan> {
        if !traces::recording() {
            return None;
        }
        let (kind, meta) = self.0.iter().find_map(|find| find(key))?;
        let taken = clock::wall_at(taken);
        let queued = taken.checked_sub(waited).unwrap_or(taken);
        Some(ReconcileSpan { controller, kind, key: key.clone(), meta, queued, taken })
    }
}

/// The span of a reconcile that runs. Nothing is recorded of a reconcile without effect.
pub(super) struct ReconcileSpan {
    controller: &'static str,
    kind: &'static str,
    key: Key,
    meta: Meta,
    queued: SystemTime,
    taken: SystemTime,
}

impl ReconcileSpan {
    /// Records a reconcile that wrote something or failed.
    pub(super) fn ended<T>(&self, result: &Result<T, Failure>, writes: u32) {
        match result {
            Err(error) => self.failed(reason(error)),
            Ok(_) if writes > 0 => {
                traces::record(|| self.step().attribute("oarlock.reconcile.writes", i64::from(writes)))
            }
            Ok(_) => {}
        }
    }

    /// Records a failed reconcile.
    pub(super) fn failed(&self, why: &str) {
        traces::record(|| self.step().failed(why));
    }

    fn step(&self) -> Step {
        let subject = Subject {
            kind: self.kind,
            namespace: &self.key.namespace,
            name: &self.key.name,
            uid: &self.meta.uid,
            generation: self.meta.generation,
        };
        let waited = self.taken.duration_since(self.queued).unwrap_or_default();
        subject
            .step("reconcile")
            .began(self.queued)
            .ended(clock::wall().into())
            .word("oarlock.controller", self.controller)
            .attribute("oarlock.queue.seconds", waited.as_secs_f64())
    }
}

/// Returns a failure's reason. The message is left out, because it may contain values of the object.
fn reason(error: &Failure) -> &str {
    let reason = error.downcast_ref::<Status>().map_or("", |status| status.reason.as_str());
    if reason.is_empty() { "error" } else { reason }
}
