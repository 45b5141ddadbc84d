//! The committer: takes what waits, makes it durable in one step, publishes it, answers.
//!
//! In that order. Nobody sees a revision that is not durable, and who got an answer, a conflict too, finds the View at
//! least that far. While one commit is on the disk the next batch gathers; there is no other delay. Over a shared log
//! writes go their own ways side by side, for the log itself orders them, and the tail tells how.

use std::sync::Arc;

use oarlock_runtime::{ActorKind, Failure, LoopCtx, OnFailure, Phase};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Error, GroupOutcome, Log, Sharing};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::batch::{self, Request};
use crate::entry::Indexer;
use crate::error::WriteError;
use crate::offload::offload;
use crate::resolve;
use crate::view::View;

/// A committer that fails has writes in flight whose outcome it does not know; only a fresh start from the log is safe.
pub(crate) static COMMITTER: ActorKind = ActorKind {
    name: "store.committer",
    on_failure: OnFailure::StopProcess,
    phase: Phase::Storage,
    ..ActorKind::DEFAULT
};

/// Requests that may wait.
pub(crate) const QUEUE: usize = 4096;
/// Requests and bytes of values in one commit.
const BATCH_REQUESTS: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;

/// Writes on their way to a shared log at a time.
const FLIGHT: u32 = 1024;

/// The committer's parts, shared with its actor.
#[derive(Clone)]
pub(crate) struct Committer {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) view: View,
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) queue: Arc<Mutex<mpsc::Receiver<Request>>>,
}

impl Committer {
    /// The actor's loop. Asked to stop, it takes no more requests and commits what waits.
    pub(crate) async fn run(self, ctx: LoopCtx) -> Result<(), Failure> {
        let queue = Arc::clone(&self.queue);
        let mut queue = queue.lock().await;
        let shared = self.log.sharing() == Sharing::Shared;
        let flight = Arc::new(Semaphore::new(FLIGHT as usize));
        loop {
            let first = match ctx.or_stop(queue.recv()).await {
                Some(first) => first,
                None => {
                    queue.close();
                    queue.try_recv().ok()
                }
            };
            let Some(first) = first else {
                let _landed = flight.acquire_many(FLIGHT).await;
                return Ok(());
            };
            if shared {
                let permit = Arc::clone(&flight).acquire_owned().await?;
                ctx.spawn("write", self.clone().send(first, permit))?;
                continue;
            }
            // Those who were answered last are about to write again: let them in before the next sync.
            tokio::task::yield_now().await;
            let requests = gather(first, &mut queue);
            ctx.protected(self.commit(requests, &ctx)).await?;
        }
    }

    async fn commit(&self, requests: Vec<Request>, ctx: &LoopCtx) -> Result<(), Failure> {
        let groups = requests.iter().map(Request::appends).collect();
        let early = if seeded_bug!("read_undurable") { self.publish_early(&requests) } else { None };
        let outcomes = offload(&self.log, move |log| async move { log.commit(groups).await }).await;
        let outcomes = match outcomes {
            Ok(outcomes) if !outcomes.iter().any(|outcome| matches!(outcome, Err(Error::Dead))) => outcomes,
            _ => {
                // Answer nobody: what was written, and what of it is durable, nobody can say. The fatal hook ends the
                // process; until it has, the callers wait.
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

    /// One write of its own to a shared log, from its place in the queue to its answer.
    async fn send(self, request: Request, _flight: OwnedSemaphorePermit) {
        if !request.is_wanted() {
            return;
        }
        let before = self.view.applied();
        let appends = request.appends();
        let outcome = offload(&self.log, move |log| async move { log.append_atomic(appends).await }).await;
        let answer = match outcome {
            Ok(Ok(outcome)) => resolve::answer(&self.view, &*self.indexer, &request, outcome, before).await,
            // It ended on the way.
            Ok(Err(Error::Dead)) | Err(_) => Err(WriteError::Unknown),
            Ok(Err(error)) => Err(error.into()),
        };
        request.answer(answer);
    }

    /// The forbidden bug: shows a create to readers before it is durable.
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

/// The first request and those that wait behind it, within the bounds of a batch. Requests whose deadline has passed
/// are dropped unwritten; their callers have gone.
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
