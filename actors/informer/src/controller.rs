//! The framework of every controller: maps changes to keys and runs a reconcile for each key.
//!
//! A controller is one actor. Its reconciles are gated tasks, at most `workers` at a time and never two of one key. A panic, an error or a
//! missed deadline of a reconcile counts as a failure of its key, which is reconciled again after a pause.

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
use crate::project::Project;
use crate::work_queue::WorkQueue;

mod run;
mod share;
mod source;
mod span;
#[cfg(test)]
mod tests;

use run::Shared;
use share::Share;
use source::{Source, Watched};
use span::Subjects;

/// The actor kind of controllers; the actor's key is the controller's name.
pub static CONTROLLER: ActorKind = ActorKind {
    name: "informer.controller",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    on_spin: OnSpin::Abort,
    ..ActorKind::DEFAULT
};

/// The fixed properties of a controller: name, number of workers, and deadline of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ControllerRow {
    /// The controller's name, as upstream's ("replicaset"); used for the actor, logs and metrics.
    pub name: &'static str,
    /// The number of keys that are reconciled at once.
    pub workers: usize,
    /// The deadline of one reconcile.
    pub deadline: Duration,
}

impl ControllerRow {
    /// A row whose reconciles may take one minute each.
    #[must_use]
    pub const fn new(name: &'static str, workers: usize) -> Self {
        Self { name, workers, deadline: Duration::from_secs(60) }
    }
}

/// When a successfully reconciled key is reconciled again, apart from changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Only when something changes.
    No,
    /// After this time at the latest.
    After(Duration),
    /// After the growing pause of a failed key, although the reconcile did not fail.
    Backoff,
}

/// The reconcile function of a controller.
#[async_trait]
pub trait Reconcile: Send + Sync + 'static {
    /// Brings the cluster closer to the desired state of the object `key`, which may be deleted. Level-triggered: the call does not say what changed.
    /// The future is dropped at the row's deadline.
    ///
    /// # Errors
    /// Any error; the key is reconciled again after a pause. The `retryAfterSeconds` of an [`oarlock_meta::Status`] is obeyed; a conflict is routine.
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure>;
}

/// A configured controller, ready to be spawned.
pub struct Controller {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Controller").field(&self.shared.row.name).finish()
    }
}

impl Controller {
    /// Begins a controller that calls `reconcile` for each key.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "a controller needs its watches before it can be built")]
    pub fn new(row: ControllerRow, reconcile: impl Reconcile) -> ControllerBuilder {
        ControllerBuilder {
            row,
            reconcile: Arc::new(reconcile),
            sources: Vec::new(),
            share: Share::default(),
            own: Arc::default(),
            queue: Arc::default(),
            subjects: Subjects::default(),
        }
    }

    /// Returns the queue, for keys that are reconciled for other reasons than changes.
    #[must_use]
    pub fn queue(&self) -> &Arc<WorkQueue<Key>> {
        &self.shared.queue
    }

    /// Starts the controller's actor.
    ///
    /// # Errors
    /// When a controller of this name is running already or the system is shutting down.
    pub fn spawn(self, system: &System) -> BoxFuture<'_, Result<LoopHandle, oarlock_runtime::Error>> {
        let name = self.shared.row.name;
        let shared = self.shared;
        system.spawn_loop(&CONTROLLER, name, move |ctx| run::run(ctx, shared.clone()))
    }
}

/// Builds a [`Controller`]: collects the caches that are watched and read.
pub struct ControllerBuilder {
    row: ControllerRow,
    reconcile: Arc<dyn Reconcile>,
    sources: Vec<Arc<dyn Source>>,
    share: Share,
    own: Arc<OwnWrites>,
    queue: Arc<WorkQueue<Key>>,
    subjects: Subjects,
}

impl std::fmt::Debug for ControllerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ControllerBuilder").field(&self.row.name).finish()
    }
}

impl ControllerBuilder {
    /// Reconciles the objects of `cache`, under their own keys.
    #[must_use]
    pub fn reconciles<T: Project>(mut self, cache: &Arc<Cache<T>>) -> Self {
        self.subjects.add(cache);
        self.watches(cache, |change, enqueue| enqueue(change.key.clone()))
    }

    /// Reconciles the managing controller of this kind when an object of `cache` changes; the old one too when an object changes its controller.
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

    /// Reconciles the keys that `map` passes to its second argument for a change of `cache`. At the start, and after an overflow, `map` is called
    /// for each object with `old` unset.
    #[must_use]
    pub fn watches<T: Send + Sync + 'static>(
        mut self,
        cache: &Arc<Cache<T>>,
        map: impl Fn(&Change<T>, &mut dyn FnMut(Key)) + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Arc::new(Watched { cache: cache.clone(), map: Some(Box::new(map)) }));
        self
    }

    /// Declares that reconciles read `cache`: no key is reconciled before `cache` is synced.
    #[must_use]
    pub fn reads<T: Send + Sync + 'static>(mut self, cache: &Arc<Cache<T>>) -> Self {
        self.sources.push(Arc::new(Watched { cache: cache.clone(), map: None }));
        self
    }

    /// Reconciles no key before the caches show the key's earlier writes, which the reconciler records in `own`.
    #[must_use]
    pub fn own_writes(mut self, own: &Arc<OwnWrites>) -> Self {
        self.own = own.clone();
        self
    }

    /// Reconciles only the keys of the units of `scope` that `placement` holds, each under its unit's claim. By default all keys are reconciled.
    #[must_use]
    pub fn placed(mut self, placement: &Placement, scope: Scope) -> Self {
        self.share = Share::of(placement, scope);
        self
    }

    /// Uses this queue, to which other code may add keys.
    #[must_use]
    pub fn queue(mut self, queue: &Arc<WorkQueue<Key>>) -> Self {
        self.queue = queue.clone();
        self
    }

    /// Builds the controller.
    #[must_use]
    pub fn build(self) -> Controller {
        let Self { row, reconcile, sources, share, own, queue, subjects } = self;
        Controller { shared: Arc::new(Shared::new((row, reconcile), (sources, subjects), share, own, queue)) }
    }

    /// Builds the controller and starts its actor.
    ///
    /// # Errors
    /// As [`Controller::spawn`].
    pub fn spawn(self, system: &System) -> BoxFuture<'_, Result<LoopHandle, oarlock_runtime::Error>> {
        self.build().spawn(system)
    }
}
