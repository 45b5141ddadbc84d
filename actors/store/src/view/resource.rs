//! One resource of the View: its current objects, its ring and its watchers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oarlock_meta::Revision;
use oarlock_storage::Key;
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::interest::Groups;
use super::ring::Ring;
use super::snapshot::{Map, Snapshot};
use crate::bodies::Bodies;
use crate::entry::Entry;
use crate::error::{MissingChange, ReadError};
use crate::event::{Event, EventKind};

/// How many old snapshots are cached for pages of a list; each keeps its versions alive.
const SNAPSHOTS_CACHED: usize = 4;
/// How many bodies become cold under one lock.
const COLD_PER_LOCK: usize = 256;

/// One committed write, as the View applies it.
#[derive(Clone, Debug)]
pub struct Change {
    /// The written key.
    pub key: Key,
    /// The write's position in the total order.
    pub revision: Revision,
    /// The revision that the write replaced; must be the View's.
    pub prev: Option<Revision>,
    /// The new entry; `None` for a delete.
    pub entry: Option<Arc<Entry>>,
}

#[derive(Debug)]
pub(super) struct Resource {
    pub(super) prefix: Arc<str>,
    pub(super) state: RwLock<State>,
    /// The bytes that the ring's events hold.
    held: Arc<AtomicUsize>,
    /// The cache for bodies outside every window; `None` keeps them in memory.
    bodies: Option<Arc<Bodies>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) map: Map,
    /// The revision of the last change to this resource.
    pub(super) revision: Revision,
    pub(super) ring: Ring,
    pub(super) groups: Groups,
    kept: VecDeque<(Revision, Map)>,
    /// Whether loaded objects remain that have never been in a window.
    loaded: bool,
    /// The number of resets to another history.
    pub(super) history: u64,
}

impl Resource {
    pub(super) fn new(prefix: Arc<str>, floor: Revision, bodies: Option<Arc<Bodies>>) -> Self {
        let (ring, groups) = (Ring::new(floor), Groups::default());
        let (map, kept) = (Map::new(), VecDeque::new());
        let state = State { map, revision: floor, ring, groups, kept, loaded: false, history: 0 };
        Self { prefix, state: RwLock::new(state), held: Arc::default(), bodies }
    }

    /// Returns the bytes that the watch window of this resource holds.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Applies changes of this resource in order; returns their entries and collects the watchers to wake.
    pub(super) fn apply(
        &self,
        changes: &[Change],
        wake: &mut Vec<Arc<Notify>>,
    ) -> Result<Vec<Arc<Entry>>, MissingChange> {
        let mut entries = Vec::with_capacity(changes.len());
        {
            let mut state = self.state.write();
            state.groups.begin_round();
            for change in changes {
                entries.push(state.apply(change, &self.held, wake)?);
            }
        }
        if let Some(bodies) = self.bodies.as_ref().filter(|bodies| bodies.cold_at_once()) {
            self.make_cold(bodies, &entries);
        }
        Ok(entries)
    }

    /// Replaces the whole state. Watchers with a hole in their history must start again; all of them when the history is `another`.
    pub(super) fn reset(&self, map: Map, revision: Revision, another: bool) -> Vec<Arc<Notify>> {
        let mut state = self.state.write();
        let state = &mut *state;
        state.history += u64::from(another);
        // The old map is dropped under the lock; a reset is rare and slow anyway.
        state.ring.reset(revision);
        state.groups.reset(state.ring.base());
        state.kept.clear();
        state.map = map;
        state.revision = revision;
        state.loaded = true;
        state.groups.everybody()
    }

    /// Returns the current state; `applied` was read before the call, so the state includes all changes up to it.
    pub(super) fn snapshot(&self, applied: Revision) -> Snapshot {
        let state = self.state.read();
        let (revision, map) = (applied.max(state.revision), state.map.clone());
        Snapshot { prefix: Arc::clone(&self.prefix), revision, map }
    }

    /// Returns the state at exactly `revision`.
    pub(super) fn at(&self, revision: Revision, applied: Revision) -> Result<Snapshot, ReadError> {
        let (mut map, undo) = {
            let state = self.state.read();
            if revision > applied.max(state.revision) {
                return Err(ReadError::Future { asked: revision, current: applied });
            }
            if revision < state.ring.floor() {
                return Err(ReadError::Expired { floor: state.ring.floor() });
            }
            let kept = state.kept.iter().filter(|(at, _)| *at >= revision).min_by_key(|(at, _)| *at);
            let (from, map) = kept.map_or((Revision::MAX, &state.map), |(at, map)| (*at, map));
            let range = state.ring.range(state.ring.first_after(revision), state.ring.first_after(from));
            (map.clone(), range.cloned().collect::<Vec<_>>())
        };
        for event in undo.iter().rev() {
            let key = &event.entry.key;
            match &event.prev {
                Some(prev) => map.insert(key.clone(), Arc::clone(prev)),
                None => map.remove(key),
            };
        }
        let snapshot = Snapshot { prefix: Arc::clone(&self.prefix), revision, map };
        if !undo.is_empty() {
            self.keep(&snapshot);
        }
        Ok(snapshot)
    }

    /// Caches a snapshot for the next pages of its list; the oldest one is dropped.
    pub(super) fn keep(&self, snapshot: &Snapshot) {
        let mut state = self.state.write();
        if snapshot.revision < state.ring.floor() || state.kept.iter().any(|(at, _)| *at == snapshot.revision) {
            return;
        }
        if state.kept.len() >= SNAPSHOTS_CACHED {
            state.kept.pop_front();
        }
        state.kept.push_back((snapshot.revision, snapshot.map.clone()));
    }

    /// Replaces an entry by one with another body, if the entry is still current.
    pub(super) fn replace(&self, entry: &Arc<Entry>) {
        self.state.write().replace(entry);
    }

    /// Evicts the oldest events until at most `target` bytes are held, and those at or below `revision`. Bodies outside every window may then become
    /// cold.
    pub(super) fn evict(&self, target: usize, revision: Revision) {
        let (mut evicted, mut old) = (Vec::new(), Vec::new());
        {
            let mut state = self.state.write();
            let state = &mut *state;
            // The evicted events release their bytes when they are dropped, after the lock.
            let mut held = self.held();
            while state.ring.oldest().is_some_and(|oldest| held > target || oldest <= revision) {
                let Some(event) = state.ring.evict() else { break };
                held = held.saturating_sub(event.cost());
                evicted.push(event);
            }
            let floor = state.ring.floor();
            state.kept.retain(|(at, _)| *at >= floor);
            if self.bodies.is_some() && std::mem::take(&mut state.loaded) {
                old.extend(state.map.values().filter(|entry| entry.revision <= floor).cloned());
            }
        }
        if let Some(bodies) = &self.bodies {
            self.make_cold(bodies, &old);
            let evicted: Vec<_> = evicted.iter().map(|event| Arc::clone(&event.entry)).collect();
            self.make_cold(bodies, &evicted);
        }
        drop(evicted);
    }

    /// Makes the bodies of those entries cold that are current. An object being deleted keeps its body, because it is read often and soon removed.
    fn make_cold(&self, bodies: &Bodies, entries: &[Arc<Entry>]) {
        for some in entries.chunks(COLD_PER_LOCK) {
            let cold = some.iter().filter(|entry| !entry.deletion).filter_map(|entry| entry.chilled());
            let mut cold: Vec<_> = cold.map(|(entry, value)| (Arc::new(entry), value)).collect();
            {
                let mut state = self.state.write();
                cold.retain(|(entry, _)| state.replace(entry));
            }
            for (entry, value) in cold {
                bodies.keep(&entry.key, entry.revision, value);
            }
        }
    }
}

impl State {
    /// Replaces the entry of the same revision; returns whether that entry was still current.
    fn replace(&mut self, entry: &Arc<Entry>) -> bool {
        let current = self.map.get(&entry.key).is_some_and(|current| current.revision == entry.revision);
        if current {
            self.map.insert(entry.key.clone(), Arc::clone(entry));
        }
        current
    }

    fn apply(
        &mut self,
        change: &Change,
        held: &Arc<AtomicUsize>,
        wake: &mut Vec<Arc<Notify>>,
    ) -> Result<Arc<Entry>, MissingChange> {
        let current = self.map.get(&change.key).map(|entry| entry.revision);
        if current != change.prev || change.revision <= self.revision {
            return Err(MissingChange {
                key: change.key.clone(),
                revision: change.revision,
                expected: change.prev,
                current,
            });
        }
        let (kind, entry, prev) = match &change.entry {
            Some(entry) => {
                let prev = self.map.insert(entry.key.clone(), Arc::clone(entry));
                (if prev.is_some() { EventKind::Modified } else { EventKind::Added }, Arc::clone(entry), prev)
            }
            None => {
                let hole = || MissingChange {
                    key: change.key.clone(),
                    revision: change.revision,
                    expected: None,
                    current: None,
                };
                let prev = self.map.remove(&change.key).ok_or_else(hole)?;
                (EventKind::Deleted, Arc::new(prev.at_revision(change.revision)), Some(prev))
            }
        };
        self.revision = change.revision;
        let event = Arc::new(Event::new(kind, Arc::clone(&entry), prev, Arc::clone(held)));
        let number = self.ring.push(Arc::clone(&event));
        self.groups.post(number, &event, self.ring.base(), wake);
        Ok(entry)
    }
}
