//! The shell of every controller: changes become keys, keys become reconciles, and nothing else is left to the controller than to decide.
//!
//! A controller is one actor. Its reconciles are gated tasks, at most `workers` at a time and never two of one key; a panic, an error or a
//! missed deadline of one is that key's failure and brings it back after a pause.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use oarlock_mesh::{Placement, Scope};
use oarlock_runtime::kind::{ActorKind, OnShutdown, OnSpin, Phase};
use oarlock_runtime::{Failure, LoopHandle, System};

use crate::cache::Cache;
use crate::changes::Change;
use crate::key::Key;
use crate::own_writes::OwnWrites;
use crate::work_queue::WorkQueue;

mod run;
mod share;
mod source;
#[cfg(test)]
mod tests;

use run::Shared;
use share::Share;
use source::{Source, Watched};

/// The row of controllers; the actor's key is the controller's name.
pub static CONTROLLER: ActorKind = ActorKind {
    name: "informer.controller",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    on_spin: OnSpin::Abort,
    ..ActorKind::DEFAULT
};

/// What is fixed about a controller.
#[derive(Clone, Copy, Debug)]
pub struct ControllerRow {
    /// Its name, as upstream's ("replicaset"); names the actor, logs and metrics.
    pub name: &'static str,
    /// How many keys are reconciled at once.
    pub workers: usize,
    /// How long one reconcile may take.
    pub deadline: Duration,
}

impl ControllerRow {
    /// A row with a minute for each reconcile.
    #[must_use]
    pub const fn new(name: &'static str, workers: usize) -> Self {
        Self { name, workers, deadline: Duration::from_secs(60) }
    }
}

/// When a key that was reconciled should be looked at again, apart from changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    No,
    /// In this time at the latest.
    After(Duration),
    /// After the pause of a failure, which grows each time, but it is none.
    Backoff,
}

/// What a controller does.
#[async_trait]
pub trait Reconcile: Send + Sync + 'static {
    /// Brings the cluster closer to what the object `key` wants; the object may be gone. Level-triggered: it is not told what changed.
    /// Dropped at the row's deadline.
    ///
    /// # Errors
    /// Any; the key comes back after a pause. A [`oarlock_meta::Status`] that says when to try again is obeyed; a conflict is routine.
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure>;
}

/// A controller to be spawned.
pub struct Controller {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Controller").field(&self.shared.row.name).finish()
    }
}

impl Controller {
    /// A controller that does `reconcile` for each key.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "what it watches has to be said before there is a controller")]
    pub fn new(row: ControllerRow, reconcile: impl Reconcile) -> ControllerBuilder {
        ControllerBuilder {
            row,
            reconcile: Arc::new(reconcile),
            sources: Vec::new(),
            share: Share::default(),
            own: Arc::default(),
            queue: Arc::default(),
        }
    }

    /// The queue, for keys that are wanted for other reasons than changes.
    #[must_use]
    pub fn queue(&self) -> &Arc<WorkQueue<Key>> {
        &self.shared.queue
    }

    /// Starts the actor.
    ///
    /// # Errors
    /// When a controller of this name lives already or the system is shutting down.
    pub fn spawn(self, system: &System) -> BoxFuture<'_, Result<LoopHandle, oarlock_runtime::Error>> {
        let name = self.shared.row.name;
        let shared = self.shared;
        system.spawn_loop(&CONTROLLER, name, move |ctx| run::run(ctx, shared.clone()))
    }
}

/// Collects what a [`Controller`] watches.
pub struct ControllerBuilder {
    row: ControllerRow,
    reconcile: Arc<dyn Reconcile>,
    sources: Vec<Arc<dyn Source>>,
    share: Share,
    own: Arc<OwnWrites>,
    queue: Arc<WorkQueue<Key>>,
}

impl std::fmt::Debug for ControllerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ControllerBuilder").field(&self.row.name).finish()
    }
}

impl ControllerBuilder {
    /// The objects of `cache` are what is reconciled, under their own keys.
    #[must_use]
    pub fn reconciles<T: Send + Sync + 'static>(self, cache: &Arc<Cache<T>>) -> Self {
        self.watches(cache, |change, enqueue| enqueue(change.key.clone()))
    }

    /// Objects of `cache` belong to what is reconciled through their managing controller of this kind: its key is wanted when they change.
    #[must_use]
    pub fn owns<T: Send + Sync + 'static>(self, cache: &Arc<Cache<T>>, kind: &'static str) -> Self {
        self.watches(cache, move |change, enqueue| {
            for item in [&change.old, &change.new].into_iter().flatten() {
                if let Some(owner) = item.meta.controller().filter(|owner| owner.kind == kind) {
                    enqueue(Key::new(item.meta.namespace(), owner.name.clone()));
                }
            }
        })
    }

    /// Changes of `cache` concern the keys that `map` hands to its second argument. At the start, and after an overflow, it is asked for
    /// each object with `old` unset.
    #[must_use]
    pub fn watches<T: Send + Sync + 'static>(
        mut self,
        cache: &Arc<Cache<T>>,
        map: impl Fn(&Change<T>, &mut dyn FnMut(Key)) + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Arc::new(Watched { cache: cache.clone(), map: Some(Box::new(map)) }));
        self
    }

    /// `cache` is read: nothing is reconciled before it is synced.
    #[must_use]
    pub fn reads<T: Send + Sync + 'static>(mut self, cache: &Arc<Cache<T>>) -> Self {
        self.sources.push(Arc::new(Watched { cache: cache.clone(), map: None }));
        self
    }

    /// No key is reconciled before the caches show what was written on its behalf.
    #[must_use]
    pub fn own_writes(mut self, own: &Arc<OwnWrites>) -> Self {
        self.own = own.clone();
        self
    }

    /// Only the keys of the units of `scope` that `placement` holds are reconciled, each under its unit's claim. Without this all are.
    #[must_use]
    pub fn placed(mut self, placement: &Placement, scope: Scope) -> Self {
        self.share = Share::of(placement, scope);
        self
    }

    /// Uses this queue, which others may add to.
    #[must_use]
    pub fn queue(mut self, queue: &Arc<WorkQueue<Key>>) -> Self {
        self.queue = queue.clone();
        self
    }

    /// The controller.
    #[must_use]
    pub fn build(self) -> Controller {
        let Self { row, reconcile, sources, share, own, queue } = self;
        Controller { shared: Arc::new(Shared::new(row, reconcile, sources, share, own, queue)) }
    }

    /// Builds and starts it.
    ///
    /// # Errors
    /// As [`Controller::spawn`].
    pub fn spawn(self, system: &System) -> BoxFuture<'_, Result<LoopHandle, oarlock_runtime::Error>> {
        self.build().spawn(system)
    }
}
