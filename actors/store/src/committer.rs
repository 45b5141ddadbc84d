//! The committer: makes queued writes durable in one step, applies them to the View, then answers the callers.
//!
//! The order is fixed: no reader sees a revision that is not durable, and a caller that has an answer (also a conflict) finds the View at that
//! revision or later. While one commit is written to disk, the next batch gathers; there is no other delay. Over a shared log writes run
//! concurrently, because the log orders them, and the tail of the log reports the order.

use std::sync::Arc;

use oarlock_runtime::{ActorKind, Failure, LoopCtx, OnFailure, Phase};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, GroupOutcome, Log, Sharing};
use oarlock_telemetry::traces;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::batch::{self, Request};
use crate::entry::Indexer;
use crate::error::WriteError;
use crate::offload::offload;
use crate::resolve;
use crate::view::View;

/// A committer that fails has writes in flight with unknown outcomes; only a fresh start from the log is safe.
pub(crate) static COMMITTER: ActorKind = ActorKind {
    name: "store.committer",
    on_failure: OnFailure::StopProcess,
    phase: Phase::Storage,
    ..ActorKind::DEFAULT
};

/// The bound of the request queue.
pub(crate) const QUEUE_CAPACITY: usize = 4096;
/// The most requests, and the most bytes of values, in one commit.
const BATCH_REQUESTS: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;

/// The most concurrent writes to a shared log.
const CONCURRENT_WRITES: u32 = 1024;

/// The committer's parts, shared with its actor.
#[derive(Clone)]
pub(crate) struct Committer {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) view: View,
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) queue: Arc<Mutex<mpsc::Receiver<Request>>>,
}

impl Committer {
    /// Runs the actor's loop. When asked to stop, the committer accepts no more requests and commits the queued ones.
    pub(crate) async fn run(self, ctx: LoopCtx) -> Result<(), Failure> {
        let queue = Arc::clone(&self.queue);
        let mut queue = queue.lock().await;
        let shared = self.log.sharing() == Sharing::Shared;
        let flight = Arc::new(Semaphore::new(CONCURRENT_WRITES as usize));
        loop {
            let first = match ctx.or_stop(queue.recv()).await {
                Some(first) => first,
                None => {
                    queue.close();
                    queue.try_recv().ok()
                }
            };
            let Some(first) = first else {
                let _all_answered = flight.acquire_many(CONCURRENT_WRITES).await;
                return Ok(());
            };
            if shared {
                let permit = Arc::clone(&flight).acquire_owned().await?;
                ctx.spawn("write", self.clone().send(first, permit))?;
                continue;
            }
            // The clients that were answered last are about to write again: gather their requests before the next sync.
            tokio::task::yield_now().await;
            let requests = gather(first, &mut queue);
            ctx.protected(self.commit(requests, &ctx)).await?;
        }
    }

    async fn commit(&self, requests: Vec<Request>, ctx: &LoopCtx) -> Result<(), Failure> {
        let groups = requests.iter().map(Request::appends).collect();
        let early = if seeded_bug!("read_undurable") { self.publish_early(&requests) } else { None };
        // The call belongs to the first request that is traced: a batch has one parent.
        let span = requests.iter().map(|request| &request.span).find(|span| span.is_valid()).cloned();
        let call = offload(&self.log, move |log| async move { log.commit(groups).await });
        let outcomes = traces::within(span, call).await;
        let outcomes = match outcomes {
            Ok(outcomes) if !outcomes.iter().any(|outcome| matches!(outcome, Err(Error::Dead))) => outcomes,
            _ => {
                // No request is answered, because it is unknown which writes are durable. The fatal hook ends the process; until then the callers
                // wait.
                ctx.cancelled().await;
                drop(requests);
                return Err(Error::Dead.into());
            }
        };
        if outcomes.iter().any(|outcome| matches!(outcome, Ok(GroupOutcome::Unknown))) {
            return Err("an exclusive log answered unknown".into());
        }
        let changes = batch::changes(&requests, &outcomes, &self.view, &*self.indexer);
        if let Some(entries) = early {
            batch::answer(requests, outcomes, entries);
            return Ok(());
        }
        let entries = self.view.take(&changes).await?;
        batch::answer(requests, outcomes, entries);
        Ok(())
    }

    /// Sends one request to a shared log and answers it.
    async fn send(self, request: Request, _flight: OwnedSemaphorePermit) {
        if !request.is_wanted() {
            return;
        }
        let before = self.view.applied();
        let appends = request.appends();
        let call = offload(&self.log, move |log| async move { log.append_atomic(appends).await });
        let outcome = traces::within(Some(request.span.clone()), call).await;
        let answer = match outcome {
            Ok(Ok(outcome)) => resolve::answer(&self.view, &*self.indexer, &request, outcome, before).await,
            // The call was interrupted (a panic, or the runtime shuts down) and may have reached the log.
            Ok(Err(Error::Dead)) | Err(_) => Err(WriteError::Unknown),
            Ok(Err(error)) => Err(error.into()),
        };
        request.answer(answer);
    }

    /// Shows a create to readers before it is durable (a seeded bug).
    fn publish_early(&self, requests: &[Request]) -> Option<Vec<Arc<crate::entry::Entry>>> {
        let [request] = requests else { return None };
        let [write] = request.writes.as_slice() else { return None };
        let key = &write.append.key;
        if self.view.get(key).is_some() {
            return None;
        }
        let revision = self.view.applied().next();
        let entry = write.entry(revision, &*self.indexer)?;
        let change = crate::view::Change { key: key.clone(), revision, prev: None, entry: Some(entry) };
        self.view.apply(&[change]).ok()
    }
}

/// Returns the first request and those queued after it, within the bounds of a batch. Requests whose deadline has passed are dropped unwritten,
/// because their callers no longer wait.
fn gather(first: Request, queue: &mut mpsc::Receiver<Request>) -> Vec<Request> {
    let mut bytes = first.bytes();
    let mut requests = vec![first];
    while requests.len() < BATCH_REQUESTS && bytes < BATCH_BYTES {
        let Ok(request) = queue.try_recv() else { break };
        bytes += request.bytes();
        requests.push(request);
    }
    requests.retain(Request::is_wanted);
    requests
}
