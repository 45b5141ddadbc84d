//! The store as the API uses it: writes go in here, reads come from its [`View`].

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, LoopHandle, System, clock};
use oarlock_storage::{Error, Health, Log, Sharing};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::barrier::Barrier;
use crate::batch::{Answer, Request, Write};
use crate::bodies::{Bodies, ColdOptions};
use crate::committer::{COMMITTER, Committer, QUEUE};
use crate::compactor::{COMPACTOR, Compactor};
use crate::entry::{Entry, Indexer};
use crate::error::{ReadError, WriteError};
use crate::feeder::{self, FEEDER, Feeder};
use crate::view::{DEFAULT_WINDOW_BYTES, View};

/// How a store is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of watch windows kept in memory, all resources together (`--watch-window-bytes`).
    pub window_bytes: usize,
    /// For how long history is kept, for watches and exact reads.
    pub window: Duration,
    /// Bytes of superseded versions the log may keep, whatever their age.
    pub history_bytes: u64,
    /// How often the compactor looks.
    pub compact_every: Duration,
    /// Where bodies rest that no watch window needs; `None` keeps all in memory.
    pub cold: Option<ColdOptions>,
    /// Part of the actors' names, unique in the process.
    pub name: String,
}

impl Default for Options {
    /// 64 MiB and 5 minutes of windows, 256 MiB of history, a look every 5 s.
    fn default() -> Self {
        Self {
            window_bytes: DEFAULT_WINDOW_BYTES,
            window: Duration::from_secs(300),
            history_bytes: 256 << 20,
            compact_every: Duration::from_secs(5),
            cold: None,
            name: "main".to_owned(),
        }
    }
}

/// The store. Clones are one store.
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
    /// Loads the log into a View and starts the actors. When it returns, everything the log has can be read.
    ///
    /// # Errors
    /// The log cannot be read, or an actor of this name lives already.
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
        let (sender, receiver) = mpsc::channel(QUEUE);
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

    /// The state; every read is answered there.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.shared.view
    }

    /// Whether others write too, so that the View may lag behind what was acknowledged.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared.log.sharing() == Sharing::Shared
    }

    /// How the log feels.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.log.health()
    }

    /// Makes one write. Returns when it is durable and in the View, with the entry as it is there; for a delete, the
    /// last state under the revision of the deletion.
    ///
    /// # Errors
    /// See [`WriteError`]; only [`WriteError::Unknown`] leaves doubt.
    pub async fn write(&self, write: Write, deadline: Instant) -> Result<Arc<Entry>, WriteError> {
        self.write_atomic(vec![write], deadline).await?.pop().ok_or(WriteError::Unknown)
    }

    /// Makes writes of different resources, all or none; as [`Store::write`], with the entries in the group's order.
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
        permit.send(Request { writes, reply, deadline });
        match clock::timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            // Let go without an answer, or late: the write may have been made.
            Ok(Err(_)) | Err(_) => Err(WriteError::Unknown),
        }
    }

    /// Waits until the View holds everything that was acknowledged, to anyone, before this call; returns how far it is.
    ///
    /// # Errors
    /// [`ReadError::Log`] when the log cannot prove it, [`ReadError::Future`] when the View is not there in time.
    pub async fn fresh(&self, deadline: Instant) -> Result<Revision, ReadError> {
        if !self.is_shared() {
            // What this process acknowledged, and nobody else does, is applied.
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

    /// Asks the store's actors to stop, after the writes that wait are done, and waits until they have or `deadline`
    /// passes.
    pub async fn stop(&self, deadline: Instant) {
        for actor in &self.shared.actors {
            actor.stop();
        }
        for actor in &self.shared.actors {
            let _late = actor.ended(deadline).await;
        }
    }
}
