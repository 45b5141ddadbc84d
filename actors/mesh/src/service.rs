//! What a member answers: its methods, how many asks at once, and for whom.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_bus::{Ask, Bus, Decline, Identity, Pattern, Role, Subject};
use oarlock_runtime::clock::{self, Instant};
use oarlock_runtime::{ActorKind, Error, LoopHandle, Phase, System};
use prost::Name;
use tokio::sync::Semaphore;

use crate::placement::Placement;
use crate::unit::Unit;

/// The row of who answers. It stops with the crew, whose work it hands out.
pub(crate) static SERVICE: ActorKind = ActorKind { name: "mesh.service", phase: Phase::Crew, ..ActorKind::DEFAULT };

type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(crate) type Method = Arc<dyn Fn(Ask) -> Handling + Send + Sync>;

/// Answers the asks of a pattern, or of a unit while it is held.
pub struct Service {
    pub(crate) at: At,
    pub(crate) methods: BTreeMap<&'static str, Method>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) waiting: usize,
}

/// For whom.
pub(crate) enum At {
    /// Always the same subjects.
    Pattern(Pattern),
    /// Those of a unit, at the epoch since which it is held.
    Unit { role: Role, unit: Unit, placement: Placement },
}

/// What a handler knows of an ask besides its body.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who asks; vouched for only where the subject names it.
    pub sender: Identity,
    /// Where it was sent to.
    pub subject: Subject,
    /// When the asker gives up; the handler is dropped then.
    pub deadline: Instant,
}

impl Asked {
    fn of(ask: &Ask) -> Self {
        Self { sender: ask.sender().clone(), subject: ask.subject().clone(), deadline: clock::after(ask.budget()) }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("at", &self.key()).finish_non_exhaustive()
    }
}

impl Service {
    /// Answers what a pattern selects: `permits` asks at once, every further one is declined as overloaded.
    #[must_use]
    pub fn new(pattern: Pattern, permits: usize) -> Self {
        Self::at(At::Pattern(pattern), permits)
    }

    /// Answers for a unit of a role while this process holds it, and at its epoch only; for a while after it was lost, asks at the old epoch are told so.
    #[must_use]
    pub fn unit(role: Role, unit: Unit, placement: Placement, permits: usize) -> Self {
        Self::at(At::Unit { role, unit, placement }, permits)
    }

    fn at(at: At, permits: usize) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS);
        // A queue only bridges the moment until the loop has its turn; work waits at its asker.
        Self { at, methods: BTreeMap::new(), permits: Arc::new(Semaphore::new(permits)), waiting: permits.min(1024) }
    }

    /// Answers a method (the last token of the subject) with what `handle` returns.
    #[must_use]
    pub fn method<Q, A, F, R>(mut self, name: &'static str, handle: F) -> Self
    where
        Q: Name + Default + 'static,
        A: Name + 'static,
        F: Fn(Q, Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, Decline>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        let method = move |ask: Ask| -> Handling {
            let handle = handle.clone();
            Box::pin(async move {
                let handled = match ask.body::<Q>() {
                    Ok(body) => handle(body, Asked::of(&ask)).await,
                    Err(decline) => Err(decline),
                };
                let subject = ask.subject().clone();
                let sent = match handled {
                    Ok(answer) => ask.answer(&answer).await,
                    Err(decline) => ask.decline(decline).await,
                };
                if let Err(error) = sent {
                    tracing::debug!(%subject, %error, "answer not sent");
                }
            })
        };
        self.methods.insert(name, Arc::new(method));
        self
    }

    /// Starts an actor that answers until it is stopped; its key is what it answers for.
    ///
    /// # Errors
    /// As [`System::spawn_loop`].
    pub fn start(self, system: &System, bus: Bus) -> BoxFuture<'_, Result<LoopHandle, Error>> {
        let (key, service) = (self.key(), Arc::new(self));
        system.spawn_loop(&SERVICE, key, move |ctx| service.clone().run(ctx, bus.clone()))
    }

    fn key(&self) -> String {
        match &self.at {
            At::Pattern(pattern) => pattern.to_string(),
            At::Unit { role, unit, .. } => format!("{role}/{unit}"),
        }
    }
}
