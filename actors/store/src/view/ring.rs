//! The ring: the last events of one resource, in order, shared by all its watchers.

use std::collections::VecDeque;
use std::sync::Arc;

use oarlock_meta::Revision;

use crate::event::Event;

/// Events by sequence number. Numbers are never reused, not even after a reset.
#[derive(Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    base: u64,
    floor: Revision,
}

impl Ring {
    /// Creates an empty ring with this floor.
    pub(super) fn new(floor: Revision) -> Self {
        Self { events: VecDeque::new(), base: 0, floor }
    }

    /// Returns the oldest revision from which a watcher can start: the ring has all events above it.
    pub(super) fn floor(&self) -> Revision {
        self.floor
    }

    /// Returns the number of the oldest event.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number of the next event.
    pub(super) fn end(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    /// Adds the newest event; returns its number.
    pub(super) fn push(&mut self, event: Arc<Event>) -> u64 {
        let number = self.end();
        self.events.push_back(event);
        number
    }

    /// Removes the oldest event and raises the floor to its revision.
    pub(super) fn evict(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.base += 1;
        self.floor = self.floor.max(event.revision);
        Some(event)
    }

    /// Returns the revision of the oldest event.
    pub(super) fn oldest(&self) -> Option<Revision> {
        self.events.front().map(|event| event.revision)
    }

    /// Returns the event with this number, if it is in the ring.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<Event>> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.events.get(at)
    }

    /// Returns the number of the first event above the revision `after`.
    pub(super) fn first_after(&self, after: Revision) -> u64 {
        self.base + self.events.partition_point(|event| event.revision <= after) as u64
    }

    /// Returns the events numbered `from..to`, oldest first.
    pub(super) fn range(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let at = |number: u64| usize::try_from(number.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let end = at(to).min(self.events.len());
        self.events.range(at(from).min(end)..end)
    }

    /// Removes all events and sets the floor; returns the removed events.
    pub(super) fn reset(&mut self, floor: Revision) -> VecDeque<Arc<Event>> {
        // One number is skipped, so that a reader that has received all events notices the hole, too.
        self.base = self.end() + 1;
        self.floor = floor;
        std::mem::take(&mut self.events)
    }
}
