//! The loop of one incarnation of a controller: waits for the caches, then gives keys to workers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
use oarlock_client::{fence, written};
use oarlock_mesh::Claim;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::clock::Instant;
use oarlock_runtime::{Failure, LoopCtx, clock};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::share::Share;
use super::source::Source;
use super::span::{ReconcileSpan, Subjects};
use super::{ControllerRow, Reconcile, Requeue};
use crate::key::Key;
use crate::metrics::QueueMetrics;
use crate::own_writes::OwnWrites;
use crate::work_queue::{QueueStats, WorkQueue};

/// The longest wait for the caches to show a key's own writes. After that the key is reconciled on what the caches show.
const OWN_WRITES_WAIT: Duration = Duration::from_secs(10);
/// The time between two warnings of a controller that waits for its caches to sync.
const SYNC_WARN_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest time between two publications of the actor's observable state.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);

/// The state that all incarnations of a controller share.
pub(super) struct Shared {
    pub(super) row: ControllerRow,
    pub(super) queue: Arc<WorkQueue<Key>>,
    reconcile: Arc<dyn Reconcile>,
    sources: Vec<Arc<dyn Source>>,
    share: Share,
    own: Arc<OwnWrites>,
    counts: Mutex<Counts>,
    metrics: QueueMetrics,
    subjects: Subjects,
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
    /// The number of keys that are reconciled at once.
    workers: usize,
    queue: QueueStats,
    #[serde(flatten)]
    counts: Counts,
}

impl Shared {
    pub(super) fn new(
        (row, reconcile): (ControllerRow, Arc<dyn Reconcile>),
        (sources, subjects): (Vec<Arc<dyn Source>>, Subjects),
        share: Share,
        own: Arc<OwnWrites>,
        queue: Arc<WorkQueue<Key>>,
    ) -> Self {
        let metrics = QueueMetrics::new(row.name, Arc::clone(&queue));
        Self { row, queue, reconcile, sources, share, own, counts: Mutex::default(), metrics, subjects }
    }

    /// Returns the number of keys that are reconciled at once.
    fn workers(&self) -> usize {
        self.row.workers.max(1)
    }

    fn publish(&self, ctx: &LoopCtx) {
        let (queue, counts) = (self.queue.stats(), self.counts.lock().clone());
        ctx.publish(&Seen { workers: self.workers(), queue, counts });
    }
}

pub(super) async fn run(ctx: LoopCtx, shared: Arc<Shared>) -> Result<(), Failure> {
    let feeds = shared.clone();
    let stop = ctx.token();
    let mut feeding = ctx.spawn("feed", async move {
        let enqueue = |key| feeds.share.enqueue(&feeds.queue, key);
        let feed = select_all(feeds.sources.iter().map(|source| source.feed(&enqueue)));
        let keep = feeds.share.keep(feeds.row.name, &feeds.sources, &feeds.queue);
        // Must end with the controller, because the gate's shutdown waits for its tasks.
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
    let workers = Arc::new(Semaphore::new(shared.workers()));
    let mut refresh = clock::now();
    shared.publish(&ctx);
    loop {
        if refresh.passed() {
            shared.publish(&ctx);
            refresh = clock::after(PUBLISH_INTERVAL);
        }
        let next = async {
            tokio::select! {
                biased;
                // Only a panic of a mapping ends the feed. A restart is better than a controller that receives no changes.
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

/// Waits until all caches are synced; `false` when the actor is asked to stop first.
async fn synced(ctx: &LoopCtx, shared: &Shared) -> bool {
    loop {
        shared.publish(ctx);
        let all = join_all(
            shared.sources.iter().map(|source| source.at_least(Revision::ZERO, clock::after(SYNC_WARN_INTERVAL))),
        );
        let Some(all) = ctx.or_stop(all).await else { return false };
        if let Some(lagging) = all.into_iter().find_map(Result::err) {
            tracing::warn!(controller = shared.row.name, %lagging, "waiting for caches");
            continue;
        }
        shared.counts.lock().synced = true;
        return true;
    }
}

/// The processing of one key by a worker. Dropped unfinished (panic, deadline, shutdown) the key counts as failed.
struct Turn {
    shared: Arc<Shared>,
    key: Key,
    claim: Claim,
    began: Instant,
    finished: bool,
    /// The span of the reconcile; `None` if tracing is off or no object has the key.
    span: Option<ReconcileSpan>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.queue.add_failed(self.key.clone());
            let mut counts = self.shared.counts.lock();
            counts.failed += 1;
            counts.last_error = format!("{}: did not finish", self.key);
            if let Some(span) = self.span.take() {
                span.failed("did not finish");
            }
        }
        self.shared.queue.done(&self.key);
        self.shared.metrics.worked(self.began);
    }
}

/// Waits for a free worker and the next key. Cancel safe.
async fn turn(shared: &Arc<Shared>, workers: &Arc<Semaphore>) -> Option<(Turn, OwnedSemaphorePermit)> {
    let permit = workers.clone().acquire_owned().await.ok()?;
    loop {
        let (key, waited) = shared.queue.get_timed().await?;
        let Some(claim) = shared.share.claim(&key) else {
            // Another process has taken the key's unit since the key was added.
            shared.queue.forget(&key);
            shared.queue.done(&key);
            continue;
        };
        let began = clock::now();
        shared.metrics.took(waited, began);
        let span = shared.subjects.begin(shared.row.name, &key, (began, waited));
        return Some((Turn { shared: shared.clone(), key, claim, began, finished: false, span }, permit));
    }
}

async fn work(mut turn: Turn, permit: OwnedSemaphorePermit, ctx: LoopCtx) {
    let shared = turn.shared.clone();
    let name = shared.row.name;
    let own: Instant = clock::after(OWN_WRITES_WAIT);
    if !shared.own.wait(&turn.key, own).await {
        tracing::warn!(controller = name, key = %turn.key, "caches do not show own writes; deciding without");
    }
    let reconcile = fence::scope(turn.claim.fence.clone(), shared.reconcile.reconcile(&turn.key));
    let (result, writes) = written::counted(reconcile).await;
    turn.finished = true;
    if let Some(span) = turn.span.take() {
        span.ended(&result, writes);
    }
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
                tracing::info!(controller = name, %key, %error, "another process holds the unit now");
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
    // Before an idle period the published state must be the current one.
    if shared.queue.stats().ready == 0 {
        shared.publish(&ctx);
    }
    drop(permit);
}
