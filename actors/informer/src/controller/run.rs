//! One incarnation of a controller.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
use oarlock_client::fence;
use oarlock_mesh::Claim;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::clock::Instant;
use oarlock_runtime::{Failure, LoopCtx, clock};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::share::Share;
use super::source::Source;
use super::{ControllerRow, Reconcile, Requeue};
use crate::key::Key;
use crate::metrics::QueueMetrics;
use crate::own_writes::OwnWrites;
use crate::work_queue::{QueueStats, WorkQueue};

/// How long a key waits for the caches to show its own writes before it is decided on what there is.
const OWN_WRITES: Duration = Duration::from_secs(10);
/// How often a controller that waits for its caches says so.
const SYNC: Duration = Duration::from_secs(30);
/// The observable state is refreshed at most this often.
const REFRESH: Duration = Duration::from_millis(500);

/// What all incarnations share.
pub(super) struct Shared {
    pub(super) row: ControllerRow,
    pub(super) queue: Arc<WorkQueue<Key>>,
    reconcile: Arc<dyn Reconcile>,
    sources: Vec<Arc<dyn Source>>,
    share: Share,
    own: Arc<OwnWrites>,
    counts: Mutex<Counts>,
    metrics: QueueMetrics,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    synced: bool,
    reconciled: u64,
    failed: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_error: String,
}

#[derive(Serialize)]
struct Seen {
    queue: QueueStats,
    #[serde(flatten)]
    counts: Counts,
}

impl Shared {
    pub(super) fn new(
        row: ControllerRow,
        reconcile: Arc<dyn Reconcile>,
        sources: Vec<Arc<dyn Source>>,
        share: Share,
        own: Arc<OwnWrites>,
        queue: Arc<WorkQueue<Key>>,
    ) -> Self {
        let metrics = QueueMetrics::new(row.name);
        Self { row, queue, reconcile, sources, share, own, counts: Mutex::default(), metrics }
    }

    fn publish(&self, ctx: &LoopCtx) {
        ctx.publish(&Seen { queue: self.queue.stats(), counts: self.counts.lock().clone() });
    }
}

pub(super) async fn run(ctx: LoopCtx, shared: Arc<Shared>) -> Result<(), Failure> {
    let feeds = shared.clone();
    let stop = ctx.token();
    let mut feeding = ctx.spawn("feed", async move {
        let enqueue = |key| feeds.share.enqueue(&feeds.queue, key);
        let feed = select_all(feeds.sources.iter().map(|source| source.feed(&enqueue)));
        let keep = feeds.share.keep(feeds.row.name, &feeds.sources, &feeds.queue);
        // Ends with the controller: a gate waits for who is inside.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = feed => {}
            () = keep => {}
        }
    })?;
    if shared.sources.is_empty() {
        return Err("a controller without sources".into());
    }
    if !synced(&ctx, &shared).await {
        return Ok(());
    }
    let workers = Arc::new(Semaphore::new(shared.row.workers.max(1)));
    let mut refresh = clock::now();
    shared.publish(&ctx);
    loop {
        if refresh.passed() {
            shared.publish(&ctx);
            refresh = clock::after(REFRESH);
        }
        let next = async {
            tokio::select! {
                biased;
                // Feeding ends only by a panic of a mapping; deaf is worse than restarted.
                _ = &mut feeding => None,
                next = turn(&shared, &workers) => next,
            }
        };
        let Some(next) = ctx.or_stop(next).await else { return Ok(()) };
        let Some((turn, permit)) = next else {
            return if ctx.is_stopping() { Ok(()) } else { Err("a mapping from changes to keys failed".into()) };
        };
        let deadline = clock::after(shared.row.deadline);
        ctx.spawn_until("reconcile", deadline, work(turn, permit, ctx.clone()))?;
    }
}

/// Waits for the caches; `false` when asked to stop.
async fn synced(ctx: &LoopCtx, shared: &Shared) -> bool {
    loop {
        shared.publish(ctx);
        let all = join_all(shared.sources.iter().map(|source| source.at_least(Revision::ZERO, clock::after(SYNC))));
        let Some(all) = ctx.or_stop(all).await else { return false };
        if let Some(lagging) = all.into_iter().find_map(Result::err) {
            tracing::warn!(controller = shared.row.name, %lagging, "waiting for caches");
            continue;
        }
        shared.counts.lock().synced = true;
        return true;
    }
}

/// A key in a worker's hands. Dropped unfinished (panic, deadline, shutdown) it counts as failed.
struct Turn {
    shared: Arc<Shared>,
    key: Key,
    claim: Claim,
    began: Instant,
    finished: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.queue.add_failed(self.key.clone());
            let mut counts = self.shared.counts.lock();
            counts.failed += 1;
            counts.last_error = format!("{}: did not finish", self.key);
        }
        self.shared.queue.done(&self.key);
        self.shared.metrics.worked(self.shared.queue.stats(), self.began.elapsed());
    }
}

/// A free worker and the next key for it. Cancel safe.
async fn turn(shared: &Arc<Shared>, workers: &Arc<Semaphore>) -> Option<(Turn, OwnedSemaphorePermit)> {
    let permit = workers.clone().acquire_owned().await.ok()?;
    loop {
        let (key, waited) = shared.queue.get_timed().await?;
        let Some(claim) = shared.share.claim(&key) else {
            // Its unit has gone to somebody else since it was added.
            shared.queue.forget(&key);
            shared.queue.done(&key);
            continue;
        };
        shared.metrics.took(shared.queue.stats(), waited);
        return Some((Turn { shared: shared.clone(), key, claim, began: clock::now(), finished: false }, permit));
    }
}

async fn work(mut turn: Turn, permit: OwnedSemaphorePermit, ctx: LoopCtx) {
    let shared = turn.shared.clone();
    let name = shared.row.name;
    let own: Instant = clock::after(OWN_WRITES);
    if !shared.own.wait(&turn.key, own).await {
        tracing::warn!(controller = name, key = %turn.key, "caches do not show own writes; deciding without");
    }
    let result = fence::scope(turn.claim.fence.clone(), shared.reconcile.reconcile(&turn.key)).await;
    turn.finished = true;
    let (key, queue) = (&turn.key, &shared.queue);
    let claim = turn.claim.fence.as_ref().map(tracing::field::display);
    tracing::debug!(target: "oarlock_informer::reconcile", controller = name, %key, claim, ok = result.is_ok(), "reconciled");
    let mut counts = shared.counts.lock();
    match result {
        Ok(requeue) => {
            counts.reconciled += 1;
            match requeue {
                Requeue::No => queue.forget(key),
                Requeue::After(delay) => {
                    queue.forget(key);
                    queue.add_after(key.clone(), delay);
                }
                Requeue::Backoff => drop(queue.add_failed(key.clone())),
            }
        }
        Err(error) => {
            counts.failed += 1;
            counts.last_error = format!("{key}: {error}");
            let status = error.downcast_ref::<Status>();
            if status.is_some_and(Status::is_stale_owner) {
                tracing::info!(controller = name, %key, %error, "the unit has gone to somebody else");
                shared.share.lost(&turn.claim);
            }
            let pause = match status.and_then(Status::retry_after) {
                Some(seconds) => {
                    let pause = Duration::from_secs(seconds.into());
                    queue.add_after(key.clone(), pause);
                    pause
                }
                None => queue.add_failed(key.clone()),
            };
            let failures = queue.failures(key);
            if status.is_some_and(Status::is_conflict) {
                tracing::debug!(controller = name, %key, %error, failures, ?pause, "conflict; trying again");
            } else {
                tracing::warn!(controller = name, %key, %error, failures, ?pause, "reconcile failed");
            }
        }
    }
    drop(counts);
    drop(turn);
    // The last one for a while shows how things stand.
    if shared.queue.stats().ready == 0 {
        shared.publish(&ctx);
    }
    drop(permit);
}
