//! Spawns actors: at the top of a system ([`System::spawn`]) or as children of an incarnation ([`Ctx::child`]).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;

use crate::actor::{Actor, Body, Looped, Served};
use crate::context::{Ctx, LoopCtx};
use crate::error::{Error, Failure};
use crate::handle::{Handle, LoopHandle, Typed};
use crate::incarnation::Launcher;
use crate::kind::{self, ActorKind};
use crate::slot::{Launch as _, Parent, Slot};
use crate::supervisor;
use crate::system::System;

impl System {
    /// Spawns an actor that handles messages. Returns when messages can be sent; [`Handle::running`] waits until the first incarnation has started.
    ///
    /// # Errors
    /// When the kind breaks a rule, another kind has the same name, an actor of this kind and key exists, or the kind's phase has been shut down.
    pub async fn spawn<A: Actor>(
        &self,
        kind: &'static ActorKind,
        key: impl Into<Arc<str>>,
        actor: A,
    ) -> Result<Handle<A::Message>, Error> {
        self.launch(kind, key.into(), Served(actor), None).await
    }

    /// Spawns an actor that is one long loop: a reflector, a listener, a controller. `run` is called once per incarnation. The loop must return soon
    /// after [`LoopCtx::cancelled`](crate::Ctx::cancelled), and must use [`LoopCtx::or_stop`](crate::Ctx::or_stop) or
    /// [`LoopCtx::protected`](crate::Ctx::protected) for long waits. Returning `Ok` ends the actor; an error is a failure.
    ///
    /// # Errors
    /// As [`System::spawn`].
    pub fn spawn_loop<F, R>(
        &self,
        kind: &'static ActorKind,
        key: impl Into<Arc<str>>,
        run: F,
    ) -> BoxFuture<'_, Result<LoopHandle, Error>>
    where
        F: Fn(LoopCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.launch_loop(kind, key.into(), Looped::new(run), None)
    }

    /// Spawns a loop. Not generic, so that the machinery of an actor is compiled here once for all loops, and not in each crate that has one.
    pub(crate) fn launch_loop(
        &self,
        kind: &'static ActorKind,
        key: Arc<str>,
        body: Looped,
        parent: Option<Parent>,
    ) -> BoxFuture<'_, Result<LoopHandle, Error>> {
        Box::pin(self.launch(kind, key, body, parent))
    }

    pub(crate) async fn launch<B: Body>(
        &self,
        kind: &'static ActorKind,
        key: Arc<str>,
        body: B,
        parent: Option<Parent>,
    ) -> Result<Handle<B::Message>, Error> {
        kind::check_row(kind)?;
        let slot = Arc::new(Slot::new(kind, key, parent));
        let typed = Arc::new(Typed { slot: slot.clone(), port: ArcSwapOption::empty() });
        let launcher = Arc::new(Launcher { body: Arc::new(body), typed: typed.clone(), system: self.downgrade() });
        *slot.launcher.lock() = Some(launcher.clone());
        self.register(&slot)?;
        // in a task of its own, so that a cancelled caller leaves no half-started actor behind
        let launched = self.tasks().spawn_detached("launch", async move { launcher.launch().await });
        let launched = match launched {
            Ok(task) => task
                .await
                .unwrap_or_else(|error| Err(Error::Spawn { name: slot.name.to_string(), reason: error.to_string() })),
            Err(_) => Err(Error::Closing(slot.name.to_string())),
        };
        if let Err(error) = launched {
            supervisor::finish(self, &slot, Some(error.to_string()));
            return Err(error);
        }
        Ok(Handle { typed })
    }
}

impl<M> Ctx<M> {
    /// Spawns a child actor. The child is stopped when this incarnation terminates, before the next one starts; a failure that the child's kind
    /// escalates fails this incarnation.
    ///
    /// # Errors
    /// As [`System::spawn`].
    pub async fn child<A: Actor>(
        &self,
        kind: &'static ActorKind,
        key: impl Into<Arc<str>>,
        actor: A,
    ) -> Result<Handle<A::Message>, Error> {
        self.system().launch(kind, key.into(), Served(actor), Some(self.parent())).await
    }

    /// Spawns a child actor that is one long loop, see [`System::spawn_loop`] and [`Ctx::child`].
    ///
    /// # Errors
    /// As [`System::spawn`].
    pub fn child_loop<F, R>(
        &self,
        kind: &'static ActorKind,
        key: impl Into<Arc<str>>,
        run: F,
    ) -> BoxFuture<'_, Result<LoopHandle, Error>>
    where
        F: Fn(LoopCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.system().launch_loop(kind, key.into(), Looped::new(run), Some(self.parent()))
    }

    fn parent(&self) -> Parent {
        self.typed().slot.has_children.store(true, Ordering::Relaxed);
        Parent { slot: Arc::downgrade(&self.typed().slot), run: self.run().number }
    }
}
