//! Services: the requests (asks) that a member answers, by subject and method, with a bound on concurrent requests.

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

/// The actor kind of services. A service stops together with the controllers and schedulers for which it answers.
pub(crate) static SERVICE: ActorKind = ActorKind { name: "mesh.service", phase: Phase::Crew, ..ActorKind::DEFAULT };

type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(crate) type Method = Arc<dyn Fn(Ask) -> Handling + Send + Sync>;

/// Answers the requests to the subjects of a pattern, or of a unit while this process holds the unit.
pub struct Service {
    pub(crate) at: At,
    pub(crate) methods: BTreeMap<&'static str, Method>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) waiting: usize,
}

/// The subjects that a service answers.
pub(crate) enum At {
    /// The subjects that a pattern matches, always.
    Pattern(Pattern),
    /// The subjects of a unit at the epoch of this process's claim, while the unit is held.
    Unit { role: Role, unit: Unit, placement: Placement },
}

/// The properties of a request besides its body, for a handler.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The sender; authenticated only if the subject contains the sender's name.
    pub sender: Identity,
    /// The subject to which the request was sent.
    pub subject: Subject,
    /// The time at which the sender stops waiting; the handler is then dropped.
    pub deadline: Instant,
}

impl RequestInfo {
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
    /// A service for the subjects of a pattern: handles `permits` requests concurrently, and declines further requests as overloaded.
    #[must_use]
    pub fn new(pattern: Pattern, permits: usize) -> Self {
        Self::at(At::Pattern(pattern), permits)
    }

    /// A service for a unit of a role: answers at the epoch of this process's claim, while the process holds the unit. For a while after the unit was lost,
    /// requests at the old epoch are declined with [`Decline::WrongEpoch`].
    #[must_use]
    pub fn unit(role: Role, unit: Unit, placement: Placement, permits: usize) -> Self {
        Self::at(At::Unit { role, unit, placement }, permits)
    }

    fn at(at: At, permits: usize) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS);
        // The queue only covers the time until the loop runs; when the service is overloaded, requests wait at the sender.
        Self { at, methods: BTreeMap::new(), permits: Arc::new(Semaphore::new(permits)), waiting: permits.min(1024) }
    }

    /// Adds a method (the last token of the subject), answered with the result of `handle`.
    #[must_use]
    pub fn method<Q, A, F, R>(mut self, name: &'static str, handle: F) -> Self
    where
        Q: Name + Default + 'static,
        A: Name + 'static,
        F: Fn(Q, RequestInfo) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, Decline>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        let method = move |ask: Ask| -> Handling {
            let handle = handle.clone();
            Box::pin(async move {
                let handled = match ask.body::<Q>() {
                    Ok(body) => handle(body, RequestInfo::of(&ask)).await,
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

    /// Starts the service's actor, which answers until it is stopped. The actor's key is the pattern, or role and unit.
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
