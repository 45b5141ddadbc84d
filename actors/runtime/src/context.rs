//! The context an actor's functions receive: name, handle, heartbeats, tasks and children of one incarnation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Elapsed, Instant};
use crate::gate::{Closed, Gate, Task};
use crate::handle::{Handle, Typed};
use crate::kind::ActorKind;
use crate::run::Run;
use crate::system::System;

/// The context of one incarnation. Clones are cheap and belong to the same incarnation.
pub struct Ctx<M> {
    typed: Arc<Typed<M>>,
    run: Arc<Run>,
    system: System,
}

/// The context of an actor that is one long loop.
pub type LoopCtx = Ctx<std::convert::Infallible>;

impl<M> Clone for Ctx<M> {
    fn clone(&self) -> Self {
        Self { typed: self.typed.clone(), run: self.run.clone(), system: self.system.clone() }
    }
}

impl<M> std::fmt::Debug for Ctx<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("actor", &self.typed.slot.name).field("incarnation", &self.run.number).finish()
    }
}

impl<M> Ctx<M> {
    pub(crate) fn new(typed: Arc<Typed<M>>, run: Arc<Run>, system: System) -> Self {
        Self { typed, run, system }
    }

    pub(crate) fn typed(&self) -> &Typed<M> {
        &self.typed
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Returns the actor's kind, with its policy.
    pub fn kind(&self) -> &'static ActorKind {
        self.typed.slot.kind
    }

    /// Returns the actor's key, unique within its kind.
    pub fn key(&self) -> &str {
        &self.typed.slot.key
    }

    /// Returns the actor's address: `kind/key`.
    pub fn name(&self) -> &str {
        &self.typed.slot.name
    }

    /// Returns the number of this incarnation; 1 is the first.
    pub fn incarnation(&self) -> u32 {
        self.run.number
    }

    /// Returns the actor's own handle, which outlives the incarnation.
    pub fn me(&self) -> Handle<M> {
        Handle { typed: self.typed.clone() }
    }

    /// Returns the system that the actor belongs to.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns the number of queued messages, without the one being handled. A handler that batches acts when this is zero.
    pub fn queued(&self) -> usize {
        self.typed.slot.mailbox.depth()
    }

    /// Reports progress, for work that takes longer than the kind's progress limit.
    pub fn heartbeat(&self) {
        self.typed.slot.progress.beat();
    }

    /// Waits for `future` without the time counting against this actor's progress limit. Meant for waits that may rightly be long: the next
    /// connection, the next event of a watch, a timer. The awaited work needs its own deadline or its own supervisor.
    pub async fn protected<F: Future>(&self, future: F) -> F::Output {
        let _zone = self.typed.slot.progress.zone();
        future.await
    }

    /// Sleeps for `duration`, which does not count against the progress limit. Returns early, with `false`, when the incarnation is asked to stop.
    pub async fn sleep(&self, duration: Duration) -> bool {
        let _zone = self.typed.slot.progress.zone();
        tokio::select! {
            biased;
            () = self.run.token.cancelled() => false,
            () = clock::sleep(duration) => true,
        }
    }

    /// Runs `future` until it is ready, or returns `None` when the incarnation is asked to stop. The time does not count against the progress limit.
    /// Loops wait for their next event with this function.
    pub async fn or_stop<F: Future>(&self, future: F) -> Option<F::Output> {
        let _zone = self.typed.slot.progress.zone();
        tokio::select! {
            biased;
            () = self.run.token.cancelled() => None,
            output = future => Some(output),
        }
    }

    /// Whether the incarnation has been asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.run.token.is_cancelled()
    }

    /// Completes when the incarnation is asked to stop.
    pub async fn cancelled(&self) {
        self.run.token.cancelled().await;
    }

    /// Returns a token that is cancelled when the incarnation is asked to stop or has failed.
    pub fn token(&self) -> CancellationToken {
        self.run.token.child_token()
    }

    /// Shows `state` in `/debug/actors` from now on. For loops; an [`Actor`](crate::Actor) is asked through [`observe`](crate::Actor::observe).
    pub fn publish<S: Serialize>(&self, state: &S) {
        let value = serde_json::to_value(state).unwrap_or_else(|error| serde_json::json!({"error": error.to_string()}));
        *self.typed.slot.observed.lock() = Some(Arc::new(value));
    }

    /// Returns the gate of the incarnation's tasks. The gate closes when the incarnation terminates, and the next incarnation starts only when the
    /// gate is empty.
    pub fn gate(&self) -> &Gate {
        self.run.gate.get_or_init(|| {
            let gate = Gate::new(self.typed.slot.name.clone());
            self.system.watch_gate(&gate);
            gate
        })
    }

    /// Runs `future` as a gated task that belongs to this incarnation.
    ///
    /// # Errors
    /// [`Closed`] when the incarnation has terminated.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Closed> {
        self.gate().spawn(name, future)
    }

    /// Runs `future` as [`Ctx::spawn`] does, with a deadline.
    ///
    /// # Errors
    /// [`Closed`] when the incarnation has terminated.
    pub fn spawn_until<T: Send + 'static>(
        &self,
        name: &'static str,
        deadline: Instant,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Closed> {
        self.gate().spawn_until(name, deadline, future)
    }

    /// Runs `future` with a deadline. The time does not count against the progress limit.
    ///
    /// # Errors
    /// [`Elapsed`] when `future` was not ready in time.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        self.protected(clock::timeout(duration, future)).await
    }
}
