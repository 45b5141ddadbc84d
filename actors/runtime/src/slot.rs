//! The slot of an actor: the part that stays the same across incarnations.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use ractor::ActorCell;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::kind::ActorKind;
use crate::mailbox::Mailbox;
use crate::policy::History;
use crate::progress::{Progress, Spot};
use crate::run::Run;

/// The state of an actor's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[repr(u8)]
pub enum Life {
    /// An incarnation is starting; messages are queued.
    Starting,
    /// An incarnation handles messages.
    Running,
    /// The last incarnation failed; the next one starts after the back-off.
    BackingOff,
    /// The actor was asked to stop.
    Stopping,
    /// The actor has ended for good.
    Ended,
}

impl Life {
    fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Starting,
            1 => Self::Running,
            2 => Self::BackingOff,
            3 => Self::Stopping,
            _ => Self::Ended,
        }
    }
}

/// A type-erased [`Launcher`](crate::incarnation::Launcher): starts incarnations and disconnects their handles.
pub(crate) trait Launch: Send + Sync {
    /// Starts an incarnation. Returns before the actor's own `start` has run, which is supervised.
    fn launch(&self) -> BoxFuture<'_, Result<(), Error>>;
    /// Disconnects the handles from the incarnation: messages are refused from now on.
    fn disconnect(&self);
    /// Asks the incarnation to publish its observable state. The returned channel completes afterwards.
    fn observe(&self) -> Option<oneshot::Receiver<()>>;
}

/// The parent incarnation of a child actor.
pub(crate) struct Parent {
    pub(crate) slot: Weak<Slot>,
    pub(crate) run: u32,
}

/// An actor across its incarnations. The system's registry holds a slot from the spawn until the actor has ended.
pub(crate) struct Slot {
    pub(crate) kind: &'static ActorKind,
    pub(crate) key: Arc<str>,
    /// `kind/key`, the actor's address in logs.
    pub(crate) name: Arc<str>,
    pub(crate) parent: Option<Parent>,
    pub(crate) has_children: AtomicBool,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) progress: Progress,
    pub(crate) spot: Spot,
    /// Cancelled when the actor is asked to stop for good.
    pub(crate) stop: CancellationToken,
    pub(crate) incarnations: AtomicU32,
    pub(crate) handled: AtomicU64,
    pub(crate) observed: Mutex<Option<Arc<Value>>>,
    pub(crate) last_error: Mutex<Option<String>>,
    /// The failure that ended the actor, if there was one.
    pub(crate) end_error: Mutex<Option<String>>,
    pub(crate) history: Mutex<History>,
    pub(crate) launcher: Mutex<Option<Arc<dyn Launch>>>,
    current: Mutex<Option<(Arc<Run>, ActorCell)>>,
    life: AtomicU8,
    changed: Notify,
}

impl Slot {
    pub(crate) fn new(kind: &'static ActorKind, key: Arc<str>, parent: Option<Parent>) -> Self {
        Self {
            kind,
            name: format!("{}/{key}", kind.name).into(),
            key,
            parent,
            has_children: AtomicBool::new(false),
            mailbox: Arc::new(Mailbox::new(kind.mailbox)),
            progress: Progress::default(),
            spot: Spot::default(),
            stop: CancellationToken::new(),
            incarnations: AtomicU32::new(0),
            handled: AtomicU64::new(0),
            observed: Mutex::default(),
            last_error: Mutex::default(),
            end_error: Mutex::default(),
            history: Mutex::default(),
            launcher: Mutex::default(),
            current: Mutex::default(),
            life: AtomicU8::new(Life::Starting as u8),
            changed: Notify::new(),
        }
    }

    pub(crate) fn life(&self) -> Life {
        Life::from_u8(self.life.load(Ordering::Acquire))
    }

    /// Sets the state and wakes the tasks that wait for a change. `Ended` is final, and `Stopping` can only be followed by `Ended`.
    pub(crate) fn set_life(&self, life: Life) {
        let step = |now| (Life::from_u8(now) < Life::Stopping || life == Life::Ended).then_some(life as u8);
        if self.life.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// Returns a future that completes at the next change after the call to `enable`.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Waits until the actor's state satisfies `reached`, and returns the state.
    pub(crate) async fn until(&self, reached: impl Fn(Life) -> bool) -> Life {
        loop {
            let mut changed = std::pin::pin!(self.changed());
            changed.as_mut().enable();
            let life = self.life();
            if reached(life) {
                return life;
            }
            changed.await;
        }
    }

    pub(crate) fn set_current(&self, run: Arc<Run>, cell: ActorCell) {
        *self.current.lock() = Some((run, cell));
    }

    pub(crate) fn clear_current(&self, number: u32) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|(run, _)| run.number == number) {
            *current = None;
        }
    }

    pub(crate) fn current(&self) -> Option<(Arc<Run>, ActorCell)> {
        self.current.lock().clone()
    }

    pub(crate) fn launcher(&self) -> Option<Arc<dyn Launch>> {
        self.launcher.lock().clone()
    }

    /// Asks a running actor to publish its observable state. The returned channel completes afterwards; `None` when nobody would answer.
    pub(crate) fn observe(&self) -> Option<oneshot::Receiver<()>> {
        (self.life() == Life::Running).then(|| self.launcher())??.observe()
    }
}
