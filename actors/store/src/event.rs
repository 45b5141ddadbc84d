//! Events: one committed write as watchers see it, shared by all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use oarlock_meta::Revision;

use crate::entry::Entry;

/// How many representations an event keeps encoded.
pub const REPRESENTATIONS: usize = 8;

/// What a write did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key did not exist before.
    Added,
    /// The key existed and exists.
    Modified,
    /// The key exists no more; the entry is its last state under the revision of the deletion.
    Deleted,
}

/// One committed write.
#[derive(Debug)]
pub struct Event {
    /// What the write did.
    pub kind: EventKind,
    /// Its place in the total order; also the entry's revision.
    pub revision: Revision,
    /// The object after the write (before it, for a deletion).
    pub entry: Arc<Entry>,
    /// The object before the write, so that a selector can see an object come and go.
    pub prev: Option<Arc<Entry>>,
    encoded: [OnceLock<Box<Bytes>>; REPRESENTATIONS],
    /// Bytes held by the ring this event is in.
    held: Arc<AtomicUsize>,
    /// Bytes this event added to `held`.
    cost: AtomicUsize,
}

impl Event {
    /// Bytes this event holds in its watch window.
    pub(crate) fn cost(&self) -> usize {
        self.cost.load(Ordering::Relaxed)
    }

    pub(crate) fn new(kind: EventKind, entry: Arc<Entry>, prev: Option<Arc<Entry>>, held: Arc<AtomicUsize>) -> Self {
        let cost = size_of::<Self>() + entry.cost();
        held.fetch_add(cost, Ordering::Relaxed);
        let (revision, encoded, cost) = (entry.revision, Default::default(), cost.into());
        Self { kind, revision, entry, prev, encoded, held, cost }
    }

    /// The event in one representation, made at most once whoever asks. Ids at or above [`REPRESENTATIONS`] are made
    /// every time.
    pub fn encoded(&self, representation: usize, make: impl FnOnce(&Self) -> Bytes) -> Bytes {
        let Some(slot) = self.encoded.get(representation) else { return make(self) };
        let bytes = slot.get_or_init(|| {
            let bytes = make(self);
            self.held.fetch_add(bytes.len(), Ordering::Relaxed);
            self.cost.fetch_add(bytes.len(), Ordering::Relaxed);
            Box::new(bytes)
        });
        Bytes::clone(bytes)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // Whoever lets go last: a slow reader's batch keeps counting against the window until it is sent.
        self.held.fetch_sub(*self.cost.get_mut(), Ordering::Relaxed);
    }
}
