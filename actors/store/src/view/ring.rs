//! The ring: the last events of one resource, in order, which all its watchers share.

use std::collections::VecDeque;
use std::sync::Arc;

use oarlock_meta::Revision;

use crate::event::Event;

/// Events by sequence number; numbers are never reused, also not over a reset.
#[derive(Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    base: u64,
    floor: Revision,
}

impl Ring {
    /// An empty ring that knows nothing at or below `floor`.
    pub(super) fn new(floor: Revision) -> Self {
        Self { events: VecDeque::new(), base: 0, floor }
    }

    /// The revision from which a watcher can start: everything above it is here.
    pub(super) fn floor(&self) -> Revision {
        self.floor
    }

    /// The number of the oldest event kept.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The number the next event will get.
    pub(super) fn end(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    /// Adds the newest event; returns its number.
    pub(super) fn push(&mut self, event: Arc<Event>) -> u64 {
        let number = self.end();
        self.events.push_back(event);
        number
    }

    /// Lets go of the oldest event and raises the floor to it.
    pub(super) fn evict(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.base += 1;
        self.floor = self.floor.max(event.revision);
        Some(event)
    }

    /// The revision of the oldest event kept.
    pub(super) fn oldest(&self) -> Option<Revision> {
        self.events.front().map(|event| event.revision)
    }

    /// The event with this number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<Event>> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.events.get(at)
    }

    /// The number of the first event above `after`.
    pub(super) fn first_after(&self, after: Revision) -> u64 {
        self.base + self.events.partition_point(|event| event.revision <= after) as u64
    }

    /// The events numbered `from..to`, oldest first.
    pub(super) fn range(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let at = |number: u64| usize::try_from(number.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let end = at(to).min(self.events.len());
        self.events.range(at(from).min(end)..end)
    }

    /// Forgets everything, and that there is nothing to know at or below `floor`; returns what was kept.
    pub(super) fn reset(&mut self, floor: Revision) -> VecDeque<Arc<Event>> {
        // One number is left out, so that also a reader that had seen everything notices the hole.
        self.base = self.end() + 1;
        self.floor = floor;
        std::mem::take(&mut self.events)
    }
}
