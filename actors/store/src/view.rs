//! The View: the whole state in memory, in many versions, fed by the log's total order. The View answers every get, list, page, watch and
//! exact-revision read, so that all backends behave alike.
//!
//! One feeder applies changes; a reader waits for the feeder no longer than one change takes. A change is in its resource's map and ring before
//! [`View::applied`] reaches its revision, and [`View::applied`] never names a revision that is not durable.

mod cursor;
mod interest;
mod resource;
mod ring;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_meta::Revision;
use oarlock_runtime::Watched;
use oarlock_runtime::clock::{self, Instant};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, Key};
use parking_lot::RwLock;

pub use self::cursor::{Batch, Filter, WatchCursor};
pub use self::interest::Interest;
pub use self::resource::Change;
use self::resource::Resource;
use self::snapshot::Map;
pub use self::snapshot::Snapshot;
use crate::bodies::Bodies;
use crate::entry::Entry;
use crate::error::{Gone, MissingChange, ReadError};

/// The default bound of all watch windows together, in bytes (`--watch-window-bytes`).
pub const DEFAULT_WINDOW_BYTES: usize = 64 << 20;

/// The in-memory state of all resources. Cheap to clone; all clones share one View.
#[derive(Clone, Debug)]
pub struct View {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    resources: RwLock<BTreeMap<Arc<str>, Arc<Resource>>>,
    applied: Arc<Watched<Revision>>,
    /// The floor of resources that have not been written yet.
    floor: RwLock<Revision>,
    /// The revision below which no state is read exactly, of no resource.
    compacted: RwLock<Revision>,
    window_bytes: usize,
    bodies: Option<Arc<Bodies>>,
}

/// Reads the View's applied revision.
#[derive(Clone, Debug)]
pub(crate) struct Applied(Arc<Watched<Revision>>);

impl Applied {
    pub(crate) fn get(&self) -> Revision {
        self.0.get()
    }
}

impl View {
    /// Creates an empty View at revision 0 whose watch windows hold at most `window_bytes` together.
    #[must_use]
    pub fn new(window_bytes: usize) -> Self {
        Self::with_bodies(window_bytes, None)
    }

    /// Creates an empty View as [`View::new`] does; bodies that leave the windows become cold in `bodies`.
    pub(crate) fn with_bodies(window_bytes: usize, bodies: Option<Bodies>) -> Self {
        let (applied, bodies) = (Arc::default(), bodies.map(Arc::new));
        let (resources, floor, compacted) = (RwLock::default(), RwLock::default(), RwLock::default());
        let shared = Shared { resources, applied, floor, compacted, window_bytes, bodies };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the applied revision: all changes up to it are in the View.
    #[must_use]
    pub fn applied(&self) -> Revision {
        self.shared.applied.get()
    }

    pub(crate) fn applied_handle(&self) -> Applied {
        Applied(Arc::clone(&self.shared.applied))
    }

    /// Waits until all changes up to `revision` are in the View.
    ///
    /// # Errors
    /// [`ReadError::Future`] when `deadline` passes first: upstream's "too large resource version".
    pub async fn wait_applied(&self, revision: Revision, deadline: Instant) -> Result<(), ReadError> {
        if self.applied() >= revision {
            return Ok(());
        }
        let reached = self.shared.applied.wait_for(|applied| *applied >= revision);
        match clock::timeout_at(deadline, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(ReadError::Future { asked: revision, current: self.applied() }),
        }
    }

    /// Returns the current version of one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let resource = self.known(key.resource())?;
        let state = resource.state.read();
        state.map.get(key).map(Arc::clone)
    }

    /// Loads the bytes of entries, which may be cold; in order. `None` for an entry that was replaced so long ago that neither the cache nor the log
    /// has its version.
    ///
    /// # Errors
    /// [`ReadError::Log`] when the log cannot be read.
    pub async fn ready(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Option<Arc<Entry>>>, ReadError> {
        match &self.shared.bodies {
            Some(bodies) => bodies.ready(entries).await.map_err(|error| ReadError::Log(error.to_string())),
            None => Ok(entries.into_iter().map(Some).collect()),
        }
    }

    /// Returns the current version of one object with its bytes.
    ///
    /// # Errors
    /// [`ReadError::Log`] when the log cannot be read.
    pub async fn get_ready(&self, key: &Key) -> Result<Option<Arc<Entry>>, ReadError> {
        loop {
            let Some(entry) = self.get(key) else { return Ok(None) };
            // A version that can no longer be loaded is not the current one any more.
            if let Some(Some(ready)) = self.ready(vec![entry]).await?.pop() {
                return Ok(Some(ready));
            }
        }
    }

    /// Returns the current state of a resource, named by its key prefix (`/registry/pods/`).
    #[must_use]
    pub fn list(&self, prefix: &str) -> Snapshot {
        // Read first, so that all changes up to this revision are in the snapshot.
        let applied = self.applied();
        match self.known(prefix) {
            Some(resource) => resource.snapshot(applied),
            None => Snapshot { prefix: prefix.into(), revision: applied, map: Map::new() },
        }
    }

    /// Returns the state of a resource at exactly `revision`, within the watch window and not below the last compaction.
    ///
    /// # Errors
    /// [`ReadError::Expired`] below the window or the last compaction (410), [`ReadError::Future`] above the applied revision.
    pub fn list_at(&self, prefix: &str, revision: Revision) -> Result<Snapshot, ReadError> {
        let applied = self.applied();
        let compacted = *self.shared.compacted.read();
        if revision < compacted && !seeded_bug!("quiet_pages_never_expire") {
            return Err(ReadError::Expired { floor: compacted });
        }
        self.resource(prefix).at(revision, applied)
    }

    /// Caches a snapshot for the further pages of its list, so that they need not be computed from the current state.
    pub fn keep(&self, snapshot: &Snapshot) {
        self.resource(&snapshot.prefix).keep(snapshot);
    }

    /// Watches a resource for events after the revision `after` that touch `interest` and pass `filter`. A future revision is allowed: the watch is
    /// silent until then.
    ///
    /// # Errors
    /// [`Gone`] when `after` is below the watch window (410).
    pub fn watch(
        &self,
        prefix: &str,
        after: Revision,
        interest: Interest,
        filter: Option<Filter>,
    ) -> Result<WatchCursor, Gone> {
        WatchCursor::new(self, prefix, after, interest, filter)
    }

    /// Returns the oldest revision from which a resource can be watched. Exact reads can be bounded above it, by [`View::compact`].
    #[must_use]
    pub fn floor(&self, prefix: &str) -> Revision {
        self.resource(prefix).state.read().ring.floor()
    }

    /// Returns the prefixes of all resources that have, or recently had, objects; in order.
    #[must_use]
    pub fn prefixes(&self) -> Vec<Arc<str>> {
        self.shared.resources.read().keys().cloned().collect()
    }

    /// Returns the bytes held by all watch windows.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.shared.resources.read().values().map(|resource| resource.held()).sum()
    }

    /// Returns the bytes that all watch windows may hold together.
    #[must_use]
    pub fn window_limit_bytes(&self) -> usize {
        self.shared.window_bytes
    }

    /// Applies committed changes, in the log's order, and wakes the waiting readers; returns the entry of each (for a delete: the last state under
    /// the revision of the deletion). Only the feeder calls this.
    ///
    /// # Errors
    /// [`MissingChange`] when a change does not follow from the View's state. The changes before it are applied; the feeder must load the log again and
    /// [`View::reset`].
    pub fn apply(&self, changes: &[Change]) -> Result<Vec<Arc<Entry>>, MissingChange> {
        let Some(last) = changes.last() else { return Ok(Vec::new()) };
        let mut entries = Vec::with_capacity(changes.len());
        let mut wake = Vec::new();
        for run in changes.chunk_by(|a, b| a.key.resource() == b.key.resource()) {
            let Some(first) = run.first() else { continue };
            entries.extend(self.resource(first.key.resource()).apply(run, &mut wake)?);
        }
        self.advance(last.revision);
        for notify in wake {
            notify.notify_waiters();
        }
        self.shrink();
        Ok(entries)
    }

    /// Applies changes as [`View::apply`] does, when they may delete cold entries: the event of a deletion carries the last state, which is loaded
    /// first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a hole, or when the log lacks a version that the View has; other errors of the log.
    pub(crate) async fn take(&self, changes: &[Change]) -> Result<Vec<Arc<Entry>>, Error> {
        if let Some(bodies) = &self.shared.bodies {
            let deleted = changes.iter().filter(|change| change.entry.is_none());
            let cold = deleted.filter_map(|change| self.get(&change.key)).filter(|entry| entry.bytes().is_none());
            for entry in bodies.ready(cold.collect()).await? {
                let entry = entry.ok_or_else(|| Error::Corrupt("what was deleted is not in the log".to_owned()))?;
                self.resource(entry.key.resource()).replace(&entry);
            }
        }
        self.apply(changes).map_err(|hole| Error::Corrupt(hole.to_string()))
    }

    /// Raises the applied revision to `revision`, which the log has proved to include no further change.
    pub fn advance(&self, revision: Revision) {
        self.shared.applied.modify(|applied| {
            let rises = revision > *applied;
            *applied = revision.max(*applied);
            rises
        });
    }

    /// Replaces the whole state by `entries` at `revision`. Every watcher gets [`Gone`], and `revision` becomes the floor. Also fills a new View.
    pub fn reset(&self, entries: impl IntoIterator<Item = Arc<Entry>>, revision: Revision) {
        self.replace(entries, revision, true);
    }

    /// Replaces the whole state as [`View::reset`] does, when the history is the same: a watcher that has received everything up to `revision` from
    /// another server continues.
    pub(crate) fn skip_to(&self, entries: impl IntoIterator<Item = Arc<Entry>>, revision: Revision) {
        self.replace(entries, revision, false);
    }

    fn replace(&self, entries: impl IntoIterator<Item = Arc<Entry>>, revision: Revision, another: bool) {
        let mut maps: BTreeMap<Arc<str>, Map> = BTreeMap::new();
        for prefix in self.shared.resources.read().keys() {
            maps.insert(Arc::clone(prefix), Map::new());
        }
        for entry in entries {
            if !maps.contains_key(entry.key.resource()) {
                maps.insert(entry.key.resource().into(), Map::new());
            }
            if let Some(map) = maps.get_mut(entry.key.resource()) {
                map.insert(entry.key.clone(), entry);
            }
        }
        *self.shared.floor.write() = revision;
        // Lower than before only when the log has another history.
        *self.shared.compacted.write() = revision;
        let mut wake = Vec::new();
        for (prefix, map) in maps {
            wake.extend(self.resource(&prefix).reset(map, revision, another));
        }
        // Lower than before only when the log has another history.
        self.shared.applied.set(revision);
        for notify in wake {
            notify.notify_waiters();
        }
    }

    /// Removes history at or below `revision` from the watch windows.
    pub fn trim(&self, revision: Revision) {
        for resource in self.all() {
            resource.evict(usize::MAX, revision);
        }
    }

    /// Ends exact reads below `revision`, also of resources whose last change is older: upstream compacts all resources at once, and the continue token
    /// of a list of unchanged objects expires there as well. Watches continue, because no event above their revision is lost.
    pub fn compact(&self, revision: Revision) {
        let revision = revision.min(self.applied());
        let mut compacted = self.shared.compacted.write();
        *compacted = revision.max(*compacted);
    }

    /// Shrinks the largest watch windows until the sum is within the bound, so that a busy resource (Leases) cannot evict the history of a quiet one.
    fn shrink(&self) {
        let bound = self.shared.window_bytes;
        let resources = self.all();
        let mut held: Vec<usize> = resources.iter().map(|resource| resource.held()).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        if held.iter().sum::<usize>() <= bound {
            return;
        }
        let cap = fair_cap(&held, bound);
        for resource in resources.iter().filter(|resource| resource.held() > cap) {
            resource.evict(cap, Revision::ZERO);
        }
    }

    fn all(&self) -> Vec<Arc<Resource>> {
        self.shared.resources.read().values().cloned().collect()
    }

    fn known(&self, prefix: &str) -> Option<Arc<Resource>> {
        self.shared.resources.read().get(prefix).cloned()
    }

    fn resource(&self, prefix: &str) -> Arc<Resource> {
        if let Some(known) = self.known(prefix) {
            return known;
        }
        let floor = *self.shared.floor.read();
        let mut resources = self.shared.resources.write();
        let name: Arc<str> = prefix.into();
        let new = || {
            let bodies = self.shared.bodies.as_ref().filter(|bodies| bodies.may_be_cold(&name)).cloned();
            Arc::new(Resource::new(Arc::clone(&name), floor, bodies))
        };
        Arc::clone(resources.entry(Arc::clone(&name)).or_insert_with(new))
    }
}

/// Returns the largest equal cap under which windows of these sizes, largest first, fit into `bound`.
fn fair_cap(sizes: &[usize], bound: usize) -> usize {
    let mut rest: usize = sizes.iter().sum();
    for (above, size) in sizes.iter().enumerate() {
        // With this cap, `above` windows are cut and the rest keep their size.
        if above * size + rest <= bound {
            let spare = bound - rest;
            return spare.checked_div(above).unwrap_or(usize::MAX);
        }
        rest -= size;
    }
    bound.checked_div(sizes.len()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
