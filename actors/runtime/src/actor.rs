//! What an actor is: a value that can start any number of incarnations of itself, one after another.

use std::convert::Infallible;
use std::future::Future;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::context::Ctx;
use crate::error::Failure;

/// An actor that handles messages, one at a time.
///
/// The implementing value is the *factory*: it holds what every incarnation is made of (configuration, handles, clients)
/// and is never changed; [`Actor::start`] makes the state of one incarnation. All functions run under supervision: a
/// panic, an error or a lack of progress ends the incarnation, and the actor's row says what follows.
///
/// Implement the functions as `async fn`; their futures must be `Send`.
pub trait Actor: Send + Sync + 'static {
    /// What it is sent; usually an enum, verbs in the imperative.
    type Message: Send + 'static;
    /// What one incarnation knows. Dropped before the next incarnation starts.
    type State: Send + 'static;

    /// Makes the state of a new incarnation. Messages that arrive meanwhile wait.
    fn start(&self, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<Self::State, Failure>> + Send;

    /// Handles one message. No other runs until it returns, so what takes long goes into a gated task
    /// ([`Ctx::spawn`]).
    fn handle(
        &self,
        state: &mut Self::State,
        message: Self::Message,
        ctx: &Ctx<Self::Message>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs when the incarnation stops because it was asked to, not when it failed or was killed.
    fn stop(&self, state: Self::State, ctx: &Ctx<Self::Message>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (state, ctx);
        async { Ok(()) }
    }

    /// What `/debug/actors` shows of the state. Called between two messages, and only when somebody looks.
    fn observe(&self, state: &Self::State) -> Value {
        let _ = state;
        Value::Null
    }
}

/// What follows the start of an incarnation.
pub(crate) enum Flow {
    /// Messages are handled until somebody says stop.
    Serve,
    /// The work is done; the incarnation stops.
    Done,
}

/// What an incarnation runs: an [`Actor`], or one long loop.
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

/// The body of an [`Actor`].
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

/// The body of an actor that is one long loop. Not generic, so that the machinery of an actor is compiled once for all loops.
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
