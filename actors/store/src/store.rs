//! The store as the API uses it: the entry point for writes, and for reads through its [`View`].

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, LoopHandle, System, clock};
use oarlock_storage::{Error, Health, Log, Sharing};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::barrier::Barrier;
use crate::batch::{Answer, Request, Write};
use crate::bodies::Bodies;
use crate::committer::{COMMITTER, Committer, QUEUE_CAPACITY};
use crate::compactor::{COMPACTOR, Compactor};
use crate::entry::{Entry, Indexer};
use crate::error::{ReadError, WriteError};
use crate::feeder::{self, FEEDER, Feeder};
use crate::options::Options;
use crate::view::View;

/// The entry point for reads and writes. Clones share one store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    log: Arc<dyn Log>,
    view: View,
    queue: mpsc::Sender<Request>,
    barrier: Barrier,
    actors: Vec<LoopHandle>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("applied", &self.shared.view.applied()).finish_non_exhaustive()
    }
}

/// A store that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log cannot be read.
    #[error("the store cannot be loaded: {0}")]
    Log(#[from] Error),
    /// An actor could not be spawned.
    #[error(transparent)]
    Actor(#[from] oarlock_runtime::Error),
}

impl Store {
    /// Loads the log into a View and starts the actors. On return, all objects of the log can be read.
    ///
    /// # Errors
    /// The log cannot be read, or an actor of this name exists already.
    pub fn start(
        system: &System,
        log: Arc<dyn Log>,
        indexer: Arc<dyn Indexer>,
        options: Options,
    ) -> BoxFuture<'_, Result<Self, StartError>> {
        Box::pin(Self::begin(system, log, indexer, options))
    }

    async fn begin(
        system: &System,
        log: Arc<dyn Log>,
        indexer: Arc<dyn Indexer>,
        options: Options,
    ) -> Result<Self, StartError> {
        let bodies = match &options.cold {
            Some(cold) => Some(Bodies::open(Arc::clone(&log), Arc::clone(&indexer), cold.clone()).await?),
            None => None,
        };
        let view = View::with_bodies(options.window_bytes, bodies);
        feeder::load(&log, &view, &indexer).await?;
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let queue = Arc::new(Mutex::new(receiver));
        let committer = Committer { log: Arc::clone(&log), view: view.clone(), indexer: Arc::clone(&indexer), queue };
        let mut actors = Vec::new();
        if log.sharing() == Sharing::Shared {
            let feeder = Feeder { log: Arc::clone(&log), view: view.clone(), indexer };
            actors.push(system.spawn_loop(&FEEDER, options.name.as_str(), move |ctx| feeder.clone().run(ctx)).await?);
        }
        let compactor = Compactor::new(Arc::clone(&log), view.clone(), &options);
        actors.push(system.spawn_loop(&COMPACTOR, options.name.as_str(), move |ctx| compactor.clone().run(ctx)).await?);
        let name = options.name.as_str();
        actors.push(system.spawn_loop(&COMMITTER, name, move |ctx| committer.clone().run(ctx)).await?);
        let shared = Shared { log, view, queue: sender, barrier: Barrier::default(), actors };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the View, which answers all reads.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.shared.view
    }

    /// Whether other processes write to the log, so that the View may lag behind acknowledged writes.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared.log.sharing() == Sharing::Shared
    }

    /// Returns the log's health.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.log.health()
    }

    /// Makes one write. Returns when the write is durable and in the View, with the View's entry; for a delete, the last state under the revision of
    /// the deletion.
    ///
    /// # Errors
    /// See [`WriteError`]; the outcome is unknown only for [`WriteError::Unknown`].
    pub async fn write(&self, write: Write, deadline: Instant) -> Result<Arc<Entry>, WriteError> {
        self.write_atomic(vec![write], deadline).await?.pop().ok_or(WriteError::Unknown)
    }

    /// Makes writes of different resources atomically; otherwise as [`Store::write`], with the entries in the group's order.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_atomic(&self, writes: Vec<Write>, deadline: Instant) -> Answer {
        let permit = match clock::timeout_at(deadline, self.shared.queue.reserve()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(WriteError::Stopped),
            Err(_) => return Err(WriteError::Overloaded),
        };
        let (reply, answer) = oneshot::channel();
        permit.send(Request { writes, reply, deadline, span: oarlock_telemetry::traces::current() });
        match clock::timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            // Dropped without an answer, or late: the write may have been made.
            Ok(Err(_)) | Err(_) => Err(WriteError::Unknown),
        }
    }

    /// Waits until the View has applied all writes acknowledged to any client before this call; returns the View's revision.
    ///
    /// # Errors
    /// [`ReadError::Log`] when the log cannot prove freshness, [`ReadError::Future`] when the View has not applied the revision in time.
    pub async fn fresh(&self, deadline: Instant) -> Result<Revision, ReadError> {
        if !self.is_shared() {
            // This process alone acknowledges writes, and all acknowledged writes are applied.
            return Ok(self.shared.view.applied());
        }
        let barrier = clock::timeout_at(deadline, self.shared.barrier.pass(&self.shared.log)).await;
        let revision = match barrier {
            Ok(Ok(revision)) => revision,
            Ok(Err(error)) => return Err(ReadError::Log(error.to_string())),
            Err(elapsed) => return Err(ReadError::Log(elapsed.to_string())),
        };
        self.shared.view.wait_applied(revision, deadline).await?;
        Ok(self.shared.view.applied())
    }

    /// Asks the store's actors to stop after the queued writes are done, and waits for them until `deadline`.
    pub async fn stop(&self, deadline: Instant) {
        for actor in &self.shared.actors {
            actor.stop();
        }
        for actor in &self.shared.actors {
            let _late = actor.ended(deadline).await;
        }
    }
}
