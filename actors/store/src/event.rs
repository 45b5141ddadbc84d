//! Watch events: one committed write, shared by all watchers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use oarlock_meta::Revision;

use crate::entry::Entry;

/// How many representations an event caches in encoded form.
pub const MAX_REPRESENTATIONS: usize = 8;

/// The effect of a write on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key did not exist before.
    Added,
    /// The key existed before and exists after.
    Modified,
    /// The key was deleted; the entry is its last state under the revision of the deletion.
    Deleted,
}

/// One committed write as watchers receive it.
#[derive(Debug)]
pub struct Event {
    /// The effect of the write.
    pub kind: EventKind,
    /// The write's position in the total order; also the entry's revision.
    pub revision: Revision,
    /// The object after the write (before it, for a deletion).
    pub entry: Arc<Entry>,
    /// The object before the write, so that a selector can tell that an object began or ceased to match.
    pub prev: Option<Arc<Entry>>,
    encoded: [OnceLock<Box<Bytes>>; MAX_REPRESENTATIONS],
    /// The sum of bytes held by the ring of this event.
    held: Arc<AtomicUsize>,
    /// The bytes that this event has added to `held`.
    cost: AtomicUsize,
}

impl Event {
    /// Returns the bytes that this event takes in its watch window.
    pub(crate) fn cost(&self) -> usize {
        self.cost.load(Ordering::Relaxed)
    }

    pub(crate) fn new(kind: EventKind, entry: Arc<Entry>, prev: Option<Arc<Entry>>, held: Arc<AtomicUsize>) -> Self {
        let cost = size_of::<Self>() + entry.cost();
        held.fetch_add(cost, Ordering::Relaxed);
        let (revision, encoded, cost) = (entry.revision, Default::default(), cost.into());
        Self { kind, revision, entry, prev, encoded, held, cost }
    }

    /// Returns the event in one representation, encoded at most once for all watchers. Ids at or above [`MAX_REPRESENTATIONS`] are encoded every time.
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
        // Runs when the last reference is dropped: the batch of a slow reader counts against the window until it is sent.
        self.held.fetch_sub(*self.cost.get_mut(), Ordering::Relaxed);
    }
}
