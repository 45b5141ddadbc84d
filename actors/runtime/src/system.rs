//! A system: the actors of one process (or of one simulated host), their registry and their shutdown.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use ractor::{ActorCell, ActorId};
use tokio::sync::Notify;

use crate::clock::{self, Instant};
use crate::error::Error;
use crate::gate::Gate;
use crate::kind::{self, ActorKind, OnSpin, Phase};
use crate::observe::ActorStatus;
use crate::run::Run;
use crate::slot::{Life, Slot};
use crate::spin::Spin;
use crate::watchdog::Watchdog;

/// How many actors that ended with a failure are kept in the list of statuses.
const FAILED_ACTORS_SHOWN: usize = 32;

/// The configuration of a system.
#[derive(Clone, Debug)]
pub struct Options {
    /// The host's name in statuses.
    pub host: Arc<str>,
    /// How often progress is checked; a stuck actor is found at most this much after its deadline.
    pub tick: Duration,
    /// Reports actors and tasks that never yield; `None` disables it. A universe has none, because all its actors run on one thread.
    pub watchdog: Option<Watchdog>,
}

impl Default for Options {
    /// Returns the machine's host name, a check every 500 ms, and a watchdog that acts after 10 s.
    fn default() -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        Self {
            host: if host.is_empty() { "localhost" } else { host }.into(),
            tick: Duration::from_millis(500),
            watchdog: Some(Watchdog::default()),
        }
    }
}

/// A failure of an actor that stops the process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{actor}: {error}")]
pub struct Fatal {
    /// The actor, `kind/key`.
    pub actor: String,
    /// The actor's error.
    pub error: String,
}

/// All actors of a process. Clones share the system.
#[derive(Clone)]
pub struct System {
    inner: Arc<Inner>,
}

/// A weak reference to a [`System`].
#[derive(Clone)]
pub(crate) struct WeakSystem(Weak<Inner>);

impl WeakSystem {
    pub(crate) fn upgrade(&self) -> Option<System> {
        self.0.upgrade().map(|inner| System { inner })
    }
}

struct Inner {
    options: Options,
    registry: Mutex<Registry>,
    supervisor: OnceLock<ActorCell>,
    /// The runtime's own tasks: sweeps, launches and clean-ups. Closed last.
    tasks: Gate,
    fatal: OnceLock<Fatal>,
    failed: Notify,
    spinning: Mutex<Vec<String>>,
    /// Whether the process serves an API, in which case no spin may end the process.
    serves: AtomicBool,
}

#[derive(Default)]
struct Registry {
    slots: BTreeMap<Arc<str>, Arc<Slot>>,
    /// Looked up by id, never iterated.
    runs: HashMap<ActorId, (Arc<Slot>, Arc<Run>)>,
    kinds: BTreeMap<&'static str, &'static ActorKind>,
    gates: Vec<(Option<Phase>, Gate)>,
    remembered: VecDeque<ActorStatus>,
    closing: Option<Phase>,
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("host", &self.inner.options.host).finish_non_exhaustive()
    }
}

impl System {
    /// Creates a system without its supervisor and its own tasks.
    pub(crate) fn new(options: Options) -> Self {
        let inner = Inner {
            options,
            registry: Mutex::default(),
            supervisor: OnceLock::new(),
            tasks: Gate::new("runtime"),
            fatal: OnceLock::new(),
            failed: Notify::new(),
            spinning: Mutex::default(),
            serves: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn set_supervisor(&self, supervisor: ActorCell) {
        self.inner.supervisor.get_or_init(|| supervisor);
    }

    /// Adds an actor to the registry.
    pub(crate) fn register(&self, slot: &Arc<Slot>) -> Result<(), Error> {
        let closing = || Error::Closing(slot.name.to_string());
        let mut registry = self.inner.registry.lock();
        if registry.closing.is_some_and(|phase| slot.kind.phase <= phase) {
            return Err(closing());
        }
        if let Some(parent) = &slot.parent {
            let alive = parent.slot.upgrade().and_then(|parent_slot| parent_slot.current());
            alive.filter(|(run, _)| run.number == parent.run && !run.token.is_cancelled()).ok_or_else(closing)?;
        }
        let known = registry.kinds.entry(slot.kind.name).or_insert(slot.kind);
        if !std::ptr::eq(*known, slot.kind) {
            return Err(kind::Error::Twice(slot.kind.name).into());
        }
        if registry.slots.contains_key(&slot.name) {
            return Err(Error::Duplicate(slot.name.to_string()));
        }
        registry.slots.insert(slot.name.clone(), slot.clone());
        Ok(())
    }

    /// Returns a gate that is closed when the shutdown reaches `phase`.
    pub fn gate(&self, name: impl Into<Arc<str>>, phase: Phase) -> Gate {
        let gate = Gate::new(name);
        self.keep_gate(Some(phase), &gate);
        gate
    }

    /// Registers a gate with the watchdog; its owner closes it.
    pub(crate) fn watch_gate(&self, gate: &Gate) {
        self.keep_gate(None, gate);
    }

    fn keep_gate(&self, phase: Option<Phase>, gate: &Gate) {
        let mut registry = self.inner.registry.lock();
        // closed gates are removed only when the length is a power of two, so that adding n gates costs O(n) steps
        if registry.gates.len().is_power_of_two() {
            registry.gates.retain(|(_, gate)| !gate.is_closed() || gate.inside() > 0);
        }
        registry.gates.push((phase, gate.clone()));
    }

    /// Returns the status of every actor, sorted by kind and key, with the state last published; then those of the last few actors that ended with a
    /// failure.
    pub fn snapshot(&self) -> Vec<ActorStatus> {
        let slots = self.slots();
        let mut statuses: Vec<_> = slots.iter().map(|slot| ActorStatus::of(slot, &self.inner.options.host)).collect();
        statuses.extend(self.inner.registry.lock().remembered.iter().cloned());
        statuses
    }

    /// Returns what [`System::snapshot`] does, after asking every actor to publish its state. An actor that has not done so by `deadline` appears
    /// with its previous state.
    pub async fn observe(&self, deadline: Instant) -> Vec<ActorStatus> {
        let looks: Vec<_> = self.slots().iter().filter_map(|slot| slot.observe()).collect();
        for look in looks {
            if clock::timeout_at(deadline, look).await.is_err() {
                break;
            }
        }
        self.snapshot()
    }

    /// Waits until an actor fails in a way that stops the process; the caller then shuts the system down.
    pub async fn failed(&self) -> Fatal {
        loop {
            let mut failed = std::pin::pin!(self.inner.failed.notified());
            failed.as_mut().enable();
            if let Some(fatal) = self.inner.fatal.get() {
                return fatal.clone();
            }
            failed.await;
        }
    }

    /// Stops the process with this error; later errors are only logged.
    pub fn fail(&self, fatal: Fatal) {
        tracing::error!(actor = fatal.actor, error = fatal.error, "stopping the process");
        self.inner.fatal.get_or_init(|| fatal);
        self.inner.failed.notify_waiters();
    }

    /// Returns the failure that stops the process, if there was one.
    pub fn fatal(&self) -> Option<Fatal> {
        self.inner.fatal.get().cloned()
    }

    pub(crate) fn downgrade(&self) -> WeakSystem {
        WeakSystem(Arc::downgrade(&self.inner))
    }

    pub(crate) fn supervisor(&self) -> Result<ActorCell, Error> {
        self.inner.supervisor.get().cloned().ok_or_else(|| Error::Closing("supervisor".to_owned()))
    }

    pub(crate) fn tasks(&self) -> &Gate {
        &self.inner.tasks
    }

    pub(crate) fn enlist(&self, id: ActorId, slot: Arc<Slot>, run: Arc<Run>) {
        self.inner.registry.lock().runs.insert(id, (slot, run));
    }

    pub(crate) fn delist(&self, id: ActorId) -> Option<(Arc<Slot>, Arc<Run>)> {
        self.inner.registry.lock().runs.remove(&id)
    }

    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        let failed = slot.end_error.lock().is_some();
        let status =
            failed.then(|| ActorStatus { life: Life::Ended, ..ActorStatus::of(slot, &self.inner.options.host) });
        let mut registry = self.inner.registry.lock();
        if registry.slots.get(&slot.name).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            registry.slots.remove(&slot.name);
        }
        registry.remembered.extend(status);
        if registry.remembered.len() > FAILED_ACTORS_SHOWN {
            registry.remembered.pop_front();
        }
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.inner.registry.lock().slots.values().cloned().collect()
    }

    pub(crate) fn children(&self, parent: &Arc<Slot>) -> Vec<Arc<Slot>> {
        let of = |slot: &Arc<Slot>| slot.parent.as_ref().is_some_and(|p| p.slot.as_ptr() == Arc::as_ptr(parent));
        self.inner.registry.lock().slots.values().filter(|slot| of(slot)).cloned().collect()
    }

    /// Begins the shutdown of `phase`: from now on no actor of this or an earlier phase is spawned. Returns the phase's actors and gates.
    pub(crate) fn begin_phase(&self, phase: Phase) -> (Vec<Arc<Slot>>, Vec<Gate>) {
        let mut registry = self.inner.registry.lock();
        registry.closing = registry.closing.max(Some(phase));
        let slots = registry.slots.values().filter(|slot| slot.kind.phase == phase).cloned().collect();
        let gates = registry.gates.iter().filter(|(of, _)| *of == Some(phase)).map(|(_, gate)| gate.clone()).collect();
        (slots, gates)
    }

    /// Whether the shutdown has begun.
    pub fn is_closing(&self) -> bool {
        self.inner.registry.lock().closing.is_some()
    }

    /// Returns the actors that had not yielded for half of the watchdog's limit at its last check. Gated tasks are left out: a long request is no
    /// reason to restart the server.
    pub fn spinning(&self) -> Vec<String> {
        self.inner.spinning.lock().clone()
    }

    /// Declares that this process serves an API: from now on spins are reported but never end the process. A request may be the spinning code, and
    /// all clients would lose the server.
    pub fn serves(&self) {
        self.inner.serves.store(true, Ordering::Relaxed);
    }

    /// Performs one check of the watchdog: returns the actors and tasks that have stayed in the same poll since earlier checks, with the number of
    /// checks.
    pub(crate) fn look(&self, half: u32) -> Vec<Spin> {
        let gates: Vec<Gate> = self.inner.registry.lock().gates.iter().map(|(_, gate)| gate.clone()).collect();
        let slots = self.slots();
        let serves = self.inner.serves.load(Ordering::Relaxed);
        let actors = slots.iter().map(|slot| Spin {
            name: slot.name.to_string(),
            looks: slot.spot.look(),
            on_spin: if serves { OnSpin::Report } else { slot.kind.on_spin },
            actor: true,
        });
        let all = actors.chain(gates.iter().flat_map(Gate::look));
        let stuck: Vec<Spin> = all.filter(|spin| spin.looks >= half).collect();
        *self.inner.spinning.lock() = stuck.iter().filter(|spin| spin.actor).map(|spin| spin.name.clone()).collect();
        stuck
    }
}
