//! The compactor: trims history that is older, or larger, than the configured windows allow, and ends exact reads below the log's last compaction.
//!
//! Over a shared log the last compaction can be another process's, so that all processes end exact reads at about the same revision.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::{ActorKind, Failure, Instant, LoopCtx, Phase, clock};
use oarlock_storage::{Error, Health, Log, Sharing};

use crate::offload::offload;
use crate::options::Options;
use crate::view::View;

/// Trims the log and the watch windows.
pub(crate) static COMPACTOR: ActorKind =
    ActorKind { name: "store.compactor", phase: Phase::Storage, ..ActorKind::DEFAULT };

/// The revisions that were current at past times.
#[derive(Debug, Default)]
struct Marks(VecDeque<(Instant, Revision)>);

impl Marks {
    fn add(&mut self, now: Instant, revision: Revision) {
        self.0.push_back((now, revision));
    }

    /// Returns the latest revision known to be older than `window`; earlier marks are dropped.
    fn older_than(&mut self, window: Duration, now: Instant) -> Revision {
        let mut old = Revision::ZERO;
        while let Some((_, revision)) = self.0.pop_front_if(|(at, _)| now - *at >= window) {
            old = revision;
        }
        old
    }
}

/// Returns the revision up to which history must be trimmed to keep about `limit` bytes, assuming that history is spread evenly over revisions.
fn by_size(health: &Health, limit: u64) -> Revision {
    if health.history_bytes <= limit {
        return Revision::ZERO;
    }
    let span = health.revision.get().saturating_sub(health.floor.get());
    let excess = u128::from(health.history_bytes - limit) * u128::from(span);
    let step = excess.div_ceil(u128::from(health.history_bytes));
    Revision(health.floor.get() + u64::try_from(step).unwrap_or(span).min(span))
}

/// The compactor's parts, shared with its actor.
#[derive(Clone)]
pub(crate) struct Compactor {
    log: Arc<dyn Log>,
    view: View,
    window: Duration,
    history_bytes: u64,
    every: Duration,
}

impl Compactor {
    pub(crate) fn new(log: Arc<dyn Log>, view: View, options: &Options) -> Self {
        let Options { window, history_bytes, compact_every, .. } = options;
        Self { log, view, window: *window, history_bytes: *history_bytes, every: *compact_every }
    }

    /// Returns the revision up to which history is too old.
    fn old(&self, marks: &mut Marks) -> Revision {
        if self.window.is_zero() {
            return Revision::ZERO;
        }
        let now = clock::now();
        marks.add(now, self.view.applied());
        marks.older_than(self.window, now)
    }

    /// Returns the revision up to which history is too large. Without a window, whoever else uses a shared log compacts it.
    fn large(&self) -> Revision {
        if self.window.is_zero() && self.log.sharing() == Sharing::Shared {
            return Revision::ZERO;
        }
        // Never above what the View has applied: a trim must not pass a tail that is still needed.
        by_size(&self.log.health(), self.history_bytes).min(self.view.applied())
    }

    /// Runs the actor's loop.
    pub(crate) async fn run(self, ctx: LoopCtx) -> Result<(), Failure> {
        let mut marks = Marks::default();
        loop {
            let old = self.old(&mut marks);
            self.view.trim(old);
            let target = old.max(self.large());
            match ctx.protected(offload(&self.log, move |log| compact(log, target))).await? {
                Err(Error::Dead) => return Err(Error::Dead.into()),
                Err(error) => tracing::warn!(%error, revision = %target, "the log could not be trimmed"),
                Ok(compacted) => {
                    self.view.compact(compacted);
                    tracing::debug!(revision = %target, %compacted, "the log is trimmed");
                }
            }
            if !ctx.sleep(self.every).await {
                return Ok(());
            }
        }
    }
}

/// Trims the log up to `target`, if that is a revision; returns the last compaction of any process.
async fn compact(log: Arc<dyn Log>, target: Revision) -> Result<Revision, Error> {
    if !target.is_zero() {
        log.trim(target).await?;
    }
    log.compacted().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(floor: u64, revision: u64, history_bytes: u64) -> Health {
        Health {
            writable: true,
            dead: false,
            revision: Revision(revision),
            floor: Revision(floor),
            history_bytes,
            stored_bytes: 0,
        }
    }

    #[test]
    fn size_takes_the_oldest_part_in_proportion() {
        assert_eq!(by_size(&health(100, 1100, 400), 500), Revision::ZERO);
        assert_eq!(by_size(&health(100, 1100, 1000), 250), Revision(850));
        assert_eq!(by_size(&health(0, 10, u64::MAX), 0), Revision(10));
    }

    #[tokio::test(start_paused = true)]
    async fn age_takes_what_was_current_a_window_ago() {
        let mut marks = Marks::default();
        let start = clock::now();
        for second in 0..10 {
            marks.add(start + Duration::from_secs(second), Revision(second * 10));
        }
        let now = start + Duration::from_secs(9);
        assert_eq!(marks.older_than(Duration::from_secs(5), now), Revision(40));
        assert_eq!(marks.older_than(Duration::from_secs(5), now), Revision::ZERO, "nothing new is older");
    }
}
