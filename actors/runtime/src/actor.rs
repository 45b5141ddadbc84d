//! The [`Actor`] trait: a value that can start any number of incarnations of one actor, one after another.

use std::convert::Infallible;
use std::future::Future;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::context::Ctx;
use crate::error::Failure;

/// An actor that handles messages, one at a time.
///
/// The implementing value is the *factory*: it holds what every incarnation is built from (configuration, handles, clients) and is never changed;
/// [`Actor::start`] makes the state of one incarnation. All functions run under supervision: a panic, an error or a lack of progress ends the
/// incarnation, and the actor's kind ([`ActorKind`](crate::ActorKind)) decides what follows.
///
/// Implement the functions as `async fn`; their futures must be `Send`.
pub trait Actor: Send + Sync + 'static {
    /// The messages the actor handles; usually an enum with imperative verbs as variants.
    type Message: Send + 'static;
    /// The state of one incarnation. Dropped before the next incarnation starts.
    type State: Send + 'static;

    /// Makes the state of a new incarnation. Messages that arrive during the start are queued.
    fn start(&self, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<Self::State, Failure>> + Send;

    /// Handles one message. The next message is handled only after this call returns, so long work belongs in a gated task ([`Ctx::spawn`]).
    fn handle(
        &self,
        state: &mut Self::State,
        message: Self::Message,
        ctx: &Ctx<Self::Message>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs when the incarnation is asked to stop, but not when it failed or was killed.
    fn stop(&self, state: Self::State, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (state, ctx);
        async { Ok(()) }
    }

    /// Returns the part of the state that `/debug/actors` shows. Called between two messages, and only on request.
    fn observe(&self, state: &Self::State) -> Value {
        let _ = state;
        Value::Null
    }
}

/// What an incarnation does after its start.
pub(crate) enum Flow {
    /// Messages are handled until the actor is asked to stop.
    Serve,
    /// The work is finished; the incarnation stops.
    Done,
}

/// The code an incarnation runs: an [`Actor`], or one long loop.
pub(crate) trait Body: Send + Sync + 'static {
    type Message: Send + 'static;
    type State: Send + 'static;

    fn start(&self, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<Self::State, Failure>> + Send;
    fn run(&self, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<Flow, Failure>> + Send;
    fn handle(
        &self,
        state: &mut Self::State,
        message: Self::Message,
        ctx: &Ctx<Self::Message>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    fn stop(&self, state: Self::State, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<(), Failure>> + Send;
    fn observe(&self, state: &Self::State) -> Option<Value>;
}

/// The [`Body`] of an [`Actor`].
pub(crate) struct Served<A>(pub(crate) A);

impl<A: Actor> Body for Served<A> {
    type Message = A::Message;
    type State = A::State;

    fn start(&self, ctx: &Ctx<A::Message>) -> impl Future<Output = Result<A::State, Failure>> + Send {
        self.0.start(ctx)
    }

    async fn run(&self, _: &Ctx<A::Message>) -> Result<Flow, Failure> {
        Ok(Flow::Serve)
    }

    fn handle(
        &self,
        state: &mut A::State,
        message: A::Message,
        ctx: &Ctx<A::Message>,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        self.0.handle(state, message, ctx)
    }

    fn stop(&self, state: A::State, ctx: &Ctx<A::Message>) -> impl Future<Output = Result<(), Failure>> + Send {
        self.0.stop(state, ctx)
    }

    fn observe(&self, state: &A::State) -> Option<Value> {
        Some(self.0.observe(state))
    }
}

/// The [`Body`] of an actor that is one long loop. Not generic, so that the machinery of an actor is compiled once for all loops.
pub(crate) struct Looped {
    run: Box<Loop>,
}

type Loop = dyn Fn(Ctx<Infallible>) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

impl Looped {
    pub(crate) fn new<F, R>(run: F) -> Self
    where
        F: Fn(Ctx<Infallible>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self { run: Box::new(move |ctx| Box::pin(run(ctx))) }
    }
}

impl Body for Looped {
    type Message = Infallible;
    type State = ();

    async fn start(&self, _: &Ctx<Infallible>) -> Result<(), Failure> {
        Ok(())
    }

    async fn run(&self, ctx: &Ctx<Infallible>) -> Result<Flow, Failure> {
        (self.run)(ctx.clone()).await?;
        Ok(Flow::Done)
    }

    async fn handle(&self, _: &mut (), message: Infallible, _: &Ctx<Infallible>) -> Result<(), Failure> {
        match message {}
    }

    async fn stop(&self, _: (), _: &Ctx<Infallible>) -> Result<(), Failure> {
        Ok(())
    }

    fn observe(&self, _: &()) -> Option<Value> {
        // a loop publishes by itself, see Ctx::publish
        None
    }
}
