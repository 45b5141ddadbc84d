//! Watch cursors: a watcher's position in its resource's shared ring. A slow watcher costs nothing and misses nothing until the ring's tail passes an
//! event it has not received.

use std::sync::Arc;

use oarlock_meta::Revision;
use oarlock_runtime::clock::{self, Instant};
use oarlock_seeded_bug::seeded_bug;
use tokio::sync::Notify;

use super::interest::{CursorPosition, Interest};
use super::resource::Resource;
use super::{Applied, View};
use crate::error::Gone;
use crate::event::Event;

/// A watcher's own filter, run outside every lock on the events that its [`Interest`] lets through.
pub type Filter = Box<dyn Fn(&Event) -> bool + Send + Sync>;

/// How many events are examined under one read lock.
const EVENTS_PER_LOCK: usize = 256;

/// The events that one call delivers to a watcher.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Events in order; empty when the deadline passed first.
    pub events: Vec<Arc<Event>>,
    /// The watcher has received all its events up to this revision, which is fit for a bookmark.
    pub progress: Revision,
}

/// A watcher's position in the ring of a resource.
pub struct WatchCursor {
    resource: Arc<Resource>,
    applied: Applied,
    interest: Interest,
    filter: Option<Filter>,
    notify: Arc<Notify>,
    after: Revision,
    progress: Revision,
    next: u64,
    /// The number of the resource's history that the cursor follows.
    history: u64,
}

impl WatchCursor {
    pub(super) fn new(
        view: &View,
        prefix: &str,
        after: Revision,
        interest: Interest,
        filter: Option<Filter>,
    ) -> Result<Self, Gone> {
        let resource = view.resource(prefix);
        let (notify, next, history) = {
            let mut state = resource.state.write();
            let state = &mut *state;
            if after < state.ring.floor() {
                return Err(Gone { floor: state.ring.floor() });
            }
            let next = state.ring.first_after(after);
            (state.groups.join(&interest, next, &state.ring), next, state.history)
        };
        let applied = view.applied_handle();
        Ok(Self { resource, applied, interest, filter, notify, after, progress: after, next, history })
    }

    /// Returns the next events, at most `max` (at least 1), or none when `deadline` passes first. Cancel safe.
    ///
    /// # Errors
    /// [`Gone`] when the watch window has moved past this watcher, which must list again. Every later call fails, too.
    pub async fn next_batch(&mut self, max: usize, deadline: Instant) -> Result<Batch, Gone> {
        let notify = Arc::clone(&self.notify);
        loop {
            let wake = notify.notified();
            tokio::pin!(wake);
            // Registered before the check, so that no event after the check is missed.
            wake.as_mut().enable();
            let batch = self.take(max.max(1))?;
            if !batch.events.is_empty() {
                return Ok(batch);
            }
            if clock::timeout_at(deadline, wake).await.is_err() {
                return Ok(batch);
            }
        }
    }

    /// Returns the revision up to which this watcher has received all its events.
    #[must_use]
    pub fn progress(&self) -> Revision {
        self.progress
    }

    /// Returns the events available now, at most `max`, without waiting.
    ///
    /// # Errors
    /// As [`WatchCursor::next_batch`].
    pub fn take(&mut self, max: usize) -> Result<Batch, Gone> {
        let mut events = Vec::new();
        loop {
            // Read before the ring, so that all changes up to this revision are in the ring.
            let applied = self.applied.get();
            let (mut found, resume, end) = self.look(EVENTS_PER_LOCK.min(max - events.len()))?;
            self.next = resume;
            let wanted = |event: &Arc<Event>| {
                event.revision > self.after && self.filter.as_ref().is_none_or(|filter| filter(event))
            };
            let last = found.last().map_or(self.progress, |event| event.revision);
            found.retain(wanted);
            if events.is_empty() {
                events = found;
            } else {
                events.append(&mut found);
            }
            self.progress = self.progress.max(last);
            if resume >= end {
                self.progress = self.progress.max(applied);
            }
            if resume >= end || events.len() >= max {
                return Ok(Batch { events, progress: self.progress });
            }
        }
    }

    /// Returns the next events of this watcher's interest, the position after them, and the ring's end.
    fn look(&self, max: usize) -> Result<(Vec<Arc<Event>>, u64, u64), Gone> {
        let state = self.resource.state.read();
        let floor = state.ring.floor();
        let cursor_position = match state.groups.cursor_position(&self.interest, self.next, &state.ring, max) {
            // Nothing is lost for a watcher that has received all events that left the ring.
            CursorPosition::Lost
                if self.progress >= floor && self.history == state.history || seeded_bug!("watch_outlives_hole") =>
            {
                let next = state.ring.first_after(self.progress);
                state.groups.cursor_position(&self.interest, next, &state.ring, max)
            }
            cursor_position => cursor_position,
        };
        let CursorPosition::At(posts, resume) = cursor_position else { return Err(Gone { floor }) };
        let skip = seeded_bug!("watch_skips_event") && resume < state.ring.end();
        let resume = if skip { resume + 1 } else { resume };
        let found = posts.iter().filter_map(|post| state.ring.get(*post)).cloned().collect();
        Ok((found, resume, state.ring.end()))
    }
}

impl Drop for WatchCursor {
    fn drop(&mut self) {
        self.resource.state.write().groups.leave(&self.interest);
    }
}

impl std::fmt::Debug for WatchCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchCursor")
            .field("resource", &self.resource.prefix)
            .field("interest", &self.interest)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
