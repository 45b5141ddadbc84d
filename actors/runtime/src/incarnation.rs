//! The adapter to ractor: each incarnation is one ractor actor, linked to the system's supervisor.
//!
//! The actor's `start` runs in ractor's `post_start`, because a failure in `pre_start` is returned to the spawner and not reported to the supervisor.

use oarlock_telemetry::logs::chain;
use std::any::TypeId;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::actor::{Body, Flow};
use crate::context::Ctx;
use crate::error::{Error, Failure, panic_text};
use crate::handle::Typed;
use crate::mailbox::Envelope;
use crate::policy::Exit;
use crate::run::Run;
use crate::slot::{Launch, Life};
use crate::stop::ask_to_stop;
use crate::system::WeakSystem;
use crate::trace;

/// Starts the incarnations of one actor.
pub(crate) struct Launcher<B: Body> {
    pub(crate) body: Arc<B>,
    pub(crate) typed: Arc<Typed<B::Message>>,
    pub(crate) system: WeakSystem,
}

impl<B: Body> Launch for Launcher<B> {
    fn launch(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            let slot = &self.typed.slot;
            let Some(system) = self.system.upgrade() else { return Err(Error::Closing(slot.name.to_string())) };
            let supervisor = system.supervisor()?;
            let run = Arc::new(Run::new(slot.incarnations.fetch_add(1, Ordering::AcqRel) + 1));
            slot.progress.reset();
            slot.set_life(Life::Starting);
            trace::record("launch", &slot.name, u64::from(run.number));
            let ctx = Ctx::new(self.typed.clone(), run.clone(), system.clone());
            let incarnation = Incarnation { body: self.body.clone(), ctx };
            let spawned = <Incarnation<B> as ractor::Actor>::spawn_linked(None, incarnation, (), supervisor).await;
            if let Err(error) = spawned {
                self.disconnect();
                slot.clear_current(run.number);
                return Err(Error::Spawn { name: slot.name.to_string(), reason: error.to_string() });
            }
            if slot.stop.is_cancelled() {
                ask_to_stop(slot);
            }
            Ok(())
        })
    }

    fn disconnect(&self) {
        self.typed.port.store(None);
    }

    fn observe(&self) -> Option<oneshot::Receiver<()>> {
        // A loop takes no messages and would never answer, so requests would pile up. A loop publishes its state with `Ctx::publish` instead.
        if TypeId::of::<B::Message>() == TypeId::of::<Infallible>() {
            return None;
        }
        let (done, seen) = oneshot::channel();
        let port = self.typed.port.load();
        port.as_ref()?.send_message(Envelope::Observe(done)).ok()?;
        Some(seen)
    }
}

/// One incarnation of an actor, as a ractor actor.
struct Incarnation<B: Body> {
    body: Arc<B>,
    ctx: Ctx<B::Message>,
}

/// An incarnation's state. Fields are dropped in declaration order, so the notice is sent after the state is dropped.
struct Live<S> {
    state: Option<S>,
    _notice: DropNotice,
}

/// Cancels [`Run::dropped`] when dropped.
struct DropNotice(Arc<Run>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        self.0.dropped.cancel();
    }
}

impl<B: Body> Incarnation<B> {
    /// Runs one function of the actor under supervision: as work that must report progress, as polls the watchdog sees, with an error or panic
    /// recorded as the reason of the incarnation's end.
    async fn step<T, F>(&self, work: Pin<&mut F>) -> Result<T, ActorProcessingErr>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let slot = &self.ctx.typed().slot;
        let _working = slot.progress.work();
        match AssertUnwindSafe(slot.spot.watch(work)).catch_unwind().await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.ctx.run().exit(Exit::Failed(chain(error.as_ref())));
                Err(error)
            }
            Err(payload) => {
                let message = panic_text(payload.as_ref());
                trace::panicked(&slot.name, &message);
                self.ctx.run().exit(Exit::Panicked(message.clone()));
                Err(message.into())
            }
        }
    }
}

impl<B: Body> ractor::Actor for Incarnation<B> {
    type Msg = Envelope<B::Message>;
    type State = Live<B::State>;
    type Arguments = ();

    async fn pre_start(&self, me: ActorRef<Self::Msg>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        let (typed, run) = (self.ctx.typed(), self.ctx.run());
        self.ctx.system().enlist(me.get_id(), typed.slot.clone(), run.clone());
        typed.slot.set_current(run.clone(), me.get_cell());
        typed.port.store(Some(Arc::new(me)));
        Ok(Live { state: None, _notice: DropNotice(run.clone()) })
    }

    async fn post_start(&self, me: ActorRef<Self::Msg>, live: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let slot = &self.ctx.typed().slot;
        live.state = Some(self.step(pin!(self.body.start(&self.ctx))).await?);
        slot.set_life(Life::Running);
        if let Flow::Done = self.step(pin!(self.body.run(&self.ctx))).await? {
            me.stop(None);
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        live: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let slot = &self.ctx.typed().slot;
        let Some(state) = live.state.as_mut() else { return Err("message before start".into()) };
        let (body, ticket, parent) = match envelope {
            Envelope::Message { body, ticket, span } => (body, ticket, span),
            Envelope::Observe(done) => {
                if let Some(value) = self.body.observe(state) {
                    *slot.observed.lock() = Some(Arc::new(value));
                }
                // the caller may have met its deadline
                let _ = done.send(());
                return Ok(());
            }
        };
        trace::perturb().await;
        let number = slot.handled.fetch_add(1, Ordering::Relaxed) + 1;
        trace::record("handle", &slot.name, number);
        drop(ticket);
        let span = tracing::info_span!(parent: &parent, "actor", kind = slot.kind.name, key = %slot.key);
        drop(parent);
        self.step(pin!(self.body.handle(state, body, &self.ctx))).instrument(span).await
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, live: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let Some(state) = live.state.take() else { return Ok(()) };
        self.ctx.run().token.cancel();
        self.step(pin!(self.body.stop(state, &self.ctx))).await
    }
}

#[cfg(test)]
mod tests;
