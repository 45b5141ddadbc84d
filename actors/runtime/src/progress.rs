//! Detection of stuck actors, by heartbeats and by polls.
//!
//! [`Progress`] counts heartbeats: an actor that works without one for too long, outside a protected zone, is stuck and is killed at its next await.
//! [`Spot`] shows whether a future is being polled now: a future that does not return from one poll never reaches an await and cannot be killed, so
//! the watchdog thread reports it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Instant;

/// The heartbeats of one actor.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    beats: AtomicU64,
    zones: AtomicU32,
    busy: AtomicBool,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    beats: u64,
    since: Instant,
}

impl Progress {
    /// Records one heartbeat.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the beginning of work, which ends when the guard is dropped.
    pub(crate) fn work(&self) -> Working<'_> {
        self.beat();
        self.busy.store(true, Ordering::Relaxed);
        Working(self)
    }

    /// Begins a protected zone: until the guard is dropped, time does not count against the progress limit.
    pub(crate) fn zone(&self) -> Zone<'_> {
        self.zones.fetch_add(1, Ordering::Relaxed);
        Zone(self)
    }

    /// Returns for how long, as of `now`, the actor has worked without a heartbeat. The count starts at the first call that sees a new heartbeat, so
    /// the result is never too long, and too short by at most the time between two calls.
    pub(crate) fn quiet(&self, now: Instant) -> Duration {
        let mut seen = self.seen.lock();
        if !self.busy.load(Ordering::Relaxed) || self.zones.load(Ordering::Relaxed) > 0 {
            *seen = None;
            return Duration::ZERO;
        }
        let beats = self.beats.load(Ordering::Relaxed);
        match &*seen {
            Some(last) if last.beats == beats => now - last.since,
            _ => {
                *seen = Some(Seen { beats, since: now });
                Duration::ZERO
            }
        }
    }

    /// Resets the record, so that the next incarnation starts afresh.
    pub(crate) fn reset(&self) {
        self.busy.store(false, Ordering::Relaxed);
        self.zones.store(0, Ordering::Relaxed);
        *self.seen.lock() = None;
    }
}

/// The guard of [`Progress::work`].
#[derive(Debug)]
pub(crate) struct Working<'a>(&'a Progress);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.beat();
    }
}

/// The guard of [`Progress::zone`].
#[derive(Debug)]
pub(crate) struct Zone<'a>(&'a Progress);

impl Drop for Zone<'_> {
    fn drop(&mut self) {
        self.0.zones.fetch_sub(1, Ordering::Relaxed);
        self.0.beat();
    }
}

/// Counts the polls of a future. The count is odd while a poll is running.
#[derive(Debug, Default)]
pub(crate) struct Spot {
    polls: AtomicU32,
    seen: AtomicU32,
    looks: AtomicU32,
}

impl Spot {
    /// Runs `future` and counts its polls. The future is passed pinned, so that no wrapper keeps a second copy.
    pub(crate) fn watch<F: Future>(&self, mut future: Pin<&mut F>) -> impl Future<Output = F::Output> {
        poll_fn(move |context| {
            let _polling = Polling::begin(self);
            future.as_mut().poll(context)
        })
    }

    /// Performs one check of the watchdog: returns how many earlier checks in a row saw the same poll running.
    pub(crate) fn look(&self) -> u32 {
        let polls = self.polls.load(Ordering::Relaxed);
        if polls.is_multiple_of(2) || self.seen.swap(polls, Ordering::Relaxed) != polls {
            self.looks.store(0, Ordering::Relaxed);
            return 0;
        }
        self.looks.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

struct Polling<'a>(&'a Spot);

impl<'a> Polling<'a> {
    fn begin(spot: &'a Spot) -> Self {
        spot.polls.fetch_add(1, Ordering::Relaxed);
        Self(spot)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.polls.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn only_unbroken_work_without_a_beat_is_quiet() {
        let (progress, start) = (Progress::default(), clock::now());
        assert_eq!(progress.quiet(start), Duration::ZERO, "idle");
        let working = progress.work();
        assert_eq!(progress.quiet(start + S), Duration::ZERO, "first seen");
        assert_eq!(progress.quiet(start + 4 * S), 3 * S);
        progress.beat();
        assert_eq!(progress.quiet(start + 5 * S), Duration::ZERO, "a beat");
        assert_eq!(progress.quiet(start + 7 * S), 2 * S);
        drop(working);
        assert_eq!(progress.quiet(start + 99 * S), Duration::ZERO, "idle again");
    }

    #[test]
    fn a_protected_zone_stops_the_count_and_leaving_it_is_a_beat() {
        let (progress, start) = (Progress::default(), clock::now());
        let _working = progress.work();
        progress.quiet(start);
        let zone = progress.zone();
        assert_eq!(progress.quiet(start + 60 * S), Duration::ZERO);
        drop(zone);
        assert_eq!(progress.quiet(start + 61 * S), Duration::ZERO);
        assert_eq!(progress.quiet(start + 63 * S), 2 * S);
    }

    #[tokio::test]
    async fn a_spot_is_stuck_only_while_one_poll_lasts() {
        let spot = Spot::default();
        assert_eq!(spot.look(), 0);
        let polls = std::pin::pin!(async {
            assert_eq!(spot.look(), 0);
            assert_eq!(spot.look(), 1);
            assert_eq!(spot.look(), 2);
            tokio::task::yield_now().await;
            assert_eq!(spot.look(), 0, "another poll");
            assert_eq!(spot.look(), 1);
        });
        spot.watch(polls).await;
        assert_eq!(spot.look(), 0);
    }
}
