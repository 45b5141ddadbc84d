//! The scheduling queue: an active queue in scheduling order, back-off after failures, a pool of unschedulable pods
//! that wait for relevant events, and gated pods (upstream: `backend/queue`, KEP-4247, KEP-5142).
//!
//! Every function takes the time as an argument ([`Stamp`]), so every rule is testable in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::event::Event;
use crate::framework::SortKey;
use crate::map::Map;
use crate::model::{PodInfo, Uid};
use crate::plugin::Plugins;

mod pool;

#[cfg(test)]
mod tests;

use pool::Pool;

/// A time in nanoseconds since the scheduler's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// Returns the time that is `wait` later.
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since an earlier stamp; zero if `earlier` is in the future.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the start of this time's back-off window. Pods whose back-off ends in the same window are ordered by priority.
    fn window(self) -> Self {
        let width = WINDOW.as_nanos() as u64;
        Self(self.0 / width * width)
    }
}

/// First back-off after a failed attempt; doubles with each one.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest back-off.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// Width of an ordering window of the back-off queue.
const WINDOW: Duration = Duration::from_secs(1);
/// Longest time in the unschedulable pool before a pod is tried again without an event.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Interval between two searches for pods that have waited for [`LONGEST_WAIT`].
const LEFTOVER_INTERVAL: Duration = Duration::from_secs(30);

type ActiveKey = (SortKey, u64);
type BackoffKey = (Stamp, SortKey, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active(ActiveKey),
    Backoff(BackoffKey),
    ErrorBackoff(BackoffKey),
    Unschedulable,
    InFlight,
}

struct Queued {
    pod: Arc<PodInfo>,
    place: Place,
    number: u64,
    /// When the pod was last queued: the tie-breaker among equal priorities.
    queued: Stamp,
    first_attempt: Option<Stamp>,
    attempts: u32,
    rejections: u32,
    errors: u32,
    /// The plugins that rejected the pod in its last attempt.
    rejectors: u32,
    gated: bool,
    expiry: Option<Stamp>,
    /// Whether the pod changed while in flight in a way that may make it schedulable.
    missed: bool,
}

/// A pod taken from the queue to be scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Popped {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// When the pod was queued for this attempt: its arrival, or the end of the attempt before.
    pub(crate) queued: Stamp,
    /// Which attempt this is, from 1.
    pub(crate) attempt: u32,
    /// When the pod's first attempt began.
    pub(crate) first_attempt: Stamp,
    /// When this attempt began.
    pub(crate) taken: Stamp,
}

/// Numbers of waiting pods, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Pods in the active queue.
    pub(crate) active: usize,
    /// Pods in back-off.
    pub(crate) backoff: usize,
    /// Unschedulable pods, which wait for an event.
    pub(crate) unschedulable: usize,
    /// Pods held by scheduling gates.
    pub(crate) gated: usize,
}

/// The scheduling queue.
pub(crate) struct Queue {
    plugins: Plugins,
    pods: Map<Uid, Queued>,
    active: BTreeMap<ActiveKey, Uid>,
    backoff: BTreeMap<BackoffKey, Uid>,
    error_backoff: BTreeMap<BackoffKey, Uid>,
    unschedulable: Pool,
    next_number: u64,
    last_leftovers: Stamp,
}

/// Returns the plugins whose PreEnqueue holds a pod back.
fn gates(plugins: Plugins, pod: &PodInfo) -> u32 {
    plugins.that(|plugin| plugin.pre_enqueue.is_some_and(|check| check(pod).is_some()))
}

fn backoff_after(failures: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_BACKOFF)
}

impl Queued {
    fn sort_key(&self, plugins: Plugins) -> SortKey {
        plugins.sort_key(&self.pod, self.queued.0)
    }

    /// Returns when the back-off ends; `None` if the pod has never failed.
    fn expiry(&mut self) -> Option<Stamp> {
        let failures = if self.errors > 0 { self.errors } else { self.rejections };
        if failures == 0 {
            return None;
        }
        let queued = self.queued;
        Some(*self.expiry.get_or_insert_with(|| queued.after(backoff_after(failures)).window()))
    }

    /// Whether the pod is still in back-off. The back-off includes the whole window in which it ends.
    fn backing_off(&mut self, now: Stamp) -> bool {
        self.expiry().is_some_and(|expiry| expiry >= now.window())
    }
}

impl Queue {
    /// An empty queue that runs the PreEnqueue, QueueSort and queueing hints of these plugins.
    pub(crate) fn new(plugins: Plugins) -> Self {
        Self {
            plugins,
            pods: Map::default(),
            active: BTreeMap::new(),
            backoff: BTreeMap::new(),
            error_backoff: BTreeMap::new(),
            unschedulable: Pool::default(),
            next_number: 0,
            last_leftovers: Stamp::default(),
        }
    }

    /// Whether the queue knows the pod, in flight included.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Returns the uid of every pod that the queue knows.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    /// Returns every pod that the queue knows, in its last known state.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values().map(|queued| &queued.pod)
    }

    /// Returns the numbers of waiting pods, by state.
    pub(crate) fn waiting(&self) -> Waiting {
        let gated = self.unschedulable.uids().filter_map(|uid| self.pods.get(uid)).filter(|pod| pod.gated).count();
        Waiting {
            active: self.active.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len() - gated,
            gated,
        }
    }

    /// Adds a new pod.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>, now: Stamp) {
        if self.contains(&pod.uid) {
            return;
        }
        let uid = Arc::clone(&pod.uid);
        self.next_number += 1;
        let queued = Queued {
            pod,
            place: Place::Unschedulable,
            number: self.next_number,
            queued: now,
            first_attempt: None,
            attempts: 0,
            rejections: 0,
            errors: 0,
            rejectors: 0,
            gated: false,
            expiry: None,
            missed: false,
        };
        self.unschedulable.insert(queued.number, Arc::clone(&uid), 0);
        self.pods.insert(Arc::clone(&uid), queued);
        self.activate(&uid);
    }

    /// Updates or adds a waiting pod. The pod's own change may make it schedulable.
    pub(crate) fn update(&mut self, cluster: &Cluster, pod: Arc<PodInfo>, now: Stamp) {
        let uid = Arc::clone(&pod.uid);
        let Some(queued) = self.pods.get_mut(&uid) else { return self.add(pod, now) };
        if queued.pod.version == pod.version {
            return;
        }
        let old = std::mem::replace(&mut queued.pod, Arc::clone(&pod));
        match queued.place {
            Place::InFlight => queued.missed |= old.spec != pod.spec || old.gates != pod.gates,
            Place::Unschedulable => {
                let event = Event::Itself { old: &old, new: &pod };
                if worth_a_try(self.plugins, cluster, queued, &event) {
                    self.wake(&uid, now);
                }
            }
            Place::Active(_) | Place::Backoff(_) | Place::ErrorBackoff(_) => {
                // The priority may have changed with the pod.
                let place = queued.place;
                self.leave(&uid);
                match place {
                    Place::Active(_) => self.activate(&uid),
                    _ => self.back_off(&uid),
                }
            }
        }
    }

    /// Forgets a pod, in flight or not.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.leave(uid);
        self.pods.remove(uid).map(|queued| queued.pod)
    }

    /// Takes the next pod to schedule: from the active queue or, when that is empty, the pod whose back-off ends first.
    /// The queue knows the pod as in flight until the pod is requeued or removed.
    pub(crate) fn pop(&mut self, now: Stamp) -> Option<Popped> {
        let uid = match self.active.pop_first() {
            Some((_, uid)) => uid,
            None => self.backoff.pop_first()?.1,
        };
        let queued = self.pods.get_mut(&uid)?;
        queued.place = Place::InFlight;
        queued.attempts += 1;
        queued.rejectors = 0;
        queued.expiry = None;
        queued.missed = false;
        let first_attempt = *queued.first_attempt.get_or_insert(now);
        let (pod, queued, attempt) = (Arc::clone(&queued.pod), queued.queued, queued.attempts);
        Some(Popped { pod, queued, attempt, first_attempt, taken: now })
    }

    /// Requeues a pod that plugins rejected: the pod waits for an event that one of these plugins registered.
    pub(crate) fn rejected(&mut self, uid: &str, rejectors: u32, now: Stamp) {
        let Some(queued) = self.pods.get_mut(uid) else { return };
        if queued.place != Place::InFlight {
            return;
        }
        queued.rejectors = rejectors;
        queued.rejections += 1;
        queued.errors = 0;
        queued.queued = now;
        queued.expiry = None;
        queued.place = Place::Unschedulable;
        let missed = std::mem::take(&mut queued.missed);
        let (number, uid) = (queued.number, Arc::clone(&queued.pod.uid));
        self.unschedulable.insert(number, Arc::clone(&uid), rejectors);
        if missed {
            self.wake(&uid, now);
        }
    }

    /// Requeues a pod whose attempt failed by an error: the pod is tried again after its back-off.
    pub(crate) fn failed(&mut self, uid: &str, now: Stamp) {
        let Some(queued) = self.pods.get_mut(uid) else { return };
        if queued.place != Place::InFlight {
            return;
        }
        queued.errors += 1;
        queued.queued = now;
        queued.expiry = None;
        let uid = Arc::clone(&queued.pod.uid);
        self.back_off(&uid);
    }

    /// Requeues a pod as if its attempt had not happened; returns whether the queue knows the pod.
    pub(crate) fn again(&mut self, uid: &str) -> bool {
        let Some(queued) = self.pods.get_mut(uid) else { return false };
        if queued.place == Place::InFlight {
            queued.attempts = queued.attempts.saturating_sub(1);
            let uid = Arc::clone(&queued.pod.uid);
            self.activate(&uid);
        }
        true
    }

    /// Applies an event: requeues the pods for which the queueing hint of a plugin that rejected them accepts the event.
    pub(crate) fn on_event(&mut self, cluster: &Cluster, event: &Event<'_>, now: Stamp) {
        let asked = self.unschedulable.interested(self.plugins, event.kind());
        if asked == 0 {
            return;
        }
        let woken: Vec<Uid> = self
            .unschedulable
            .turned_down_by(asked)
            .filter(|uid| self.pods.get(*uid).is_some_and(|queued| worth_a_try(self.plugins, cluster, queued, event)))
            .cloned()
            .collect();
        for uid in woken {
            self.wake(&uid, now);
        }
    }

    /// Requeues the pods whose back-off or longest wait has ended. To be called at [`Queue::next_wakeup`].
    pub(crate) fn flush(&mut self, cluster: &Cluster, now: Stamp) {
        for errors in [false, true] {
            loop {
                let queue = if errors { &self.error_backoff } else { &self.backoff };
                let due = queue.first_key_value().filter(|((expiry, _, _), _)| *expiry < now.window());
                let Some(uid) = due.map(|(_, uid)| Arc::clone(uid)) else { break };
                self.leave(&uid);
                self.activate(&uid);
            }
        }
        if now.since(self.last_leftovers) < LEFTOVER_INTERVAL {
            return;
        }
        self.last_leftovers = now;
        let stale: Vec<Uid> = self
            .unschedulable
            .uids()
            .filter(|uid| {
                self.pods.get(*uid).is_some_and(|queued| {
                    now.since(queued.queued) > LONGEST_WAIT
                        && worth_a_try(self.plugins, cluster, queued, &Event::Everything)
                })
            })
            .cloned()
            .collect();
        for uid in stale {
            self.wake(&uid, now);
        }
    }

    /// Returns when [`Queue::flush`] next has work; `None` while no pod waits for a time.
    pub(crate) fn next_wakeup(&self) -> Option<Stamp> {
        let backoff = [&self.backoff, &self.error_backoff]
            .into_iter()
            .filter_map(|queue| queue.first_key_value())
            .map(|((expiry, _, _), _)| expiry.after(WINDOW))
            .min();
        let leftovers = (!self.unschedulable.is_empty()).then(|| self.last_leftovers.after(LEFTOVER_INTERVAL));
        backoff.into_iter().chain(leftovers).min()
    }

    /// Requeues an unschedulable pod, at once or after the rest of its back-off.
    pub(crate) fn wake(&mut self, uid: &Uid, now: Stamp) {
        let Some(queued) = self.pods.get_mut(uid) else { return };
        if queued.place == Place::InFlight {
            return;
        }
        let backing_off = queued.backing_off(now);
        self.leave(uid);
        if backing_off { self.back_off(uid) } else { self.activate(uid) }
    }

    fn leave(&mut self, uid: &str) {
        let Some(queued) = self.pods.get_mut(uid) else { return };
        match std::mem::replace(&mut queued.place, Place::InFlight) {
            Place::Active(key) => drop(self.active.remove(&key)),
            Place::Backoff(key) => drop(self.backoff.remove(&key)),
            Place::ErrorBackoff(key) => drop(self.error_backoff.remove(&key)),
            Place::Unschedulable => self.unschedulable.remove(queued.number),
            Place::InFlight => {}
        }
    }

    /// Moves the pod into the active queue, unless a gate holds the pod.
    fn activate(&mut self, uid: &Uid) {
        self.leave(uid);
        let Some(queued) = self.pods.get_mut(uid) else { return };
        if !hold(self.plugins, queued, &mut self.unschedulable) {
            let key = (queued.sort_key(self.plugins), queued.number);
            queued.place = Place::Active(key);
            self.active.insert(key, Arc::clone(uid));
        }
    }

    /// Moves the pod into a back-off queue, unless a gate holds the pod.
    fn back_off(&mut self, uid: &Uid) {
        self.leave(uid);
        let Some(queued) = self.pods.get_mut(uid) else { return };
        if hold(self.plugins, queued, &mut self.unschedulable) {
            return;
        }
        let key = (queued.expiry().unwrap_or_default(), queued.sort_key(self.plugins), queued.number);
        // Pods that failed by an error are not popped before their back-off ends.
        if queued.rejectors == 0 {
            queued.place = Place::ErrorBackoff(key);
            self.error_backoff.insert(key, Arc::clone(uid));
        } else {
            queued.place = Place::Backoff(key);
            self.backoff.insert(key, Arc::clone(uid));
        }
    }
}

/// Runs PreEnqueue; returns whether the pod is held. A held pod goes to the unschedulable pool, with the gate as rejecting plugin.
fn hold(plugins: Plugins, queued: &mut Queued, pool: &mut Pool) -> bool {
    let held = gates(plugins, &queued.pod);
    queued.gated = held != 0;
    if queued.gated {
        queued.rejectors |= held;
        queued.place = Place::Unschedulable;
        pool.insert(queued.number, Arc::clone(&queued.pod.uid), queued.rejectors);
    }
    queued.gated
}

/// Whether the queueing hint of a plugin that rejected the pod accepts the event.
fn worth_a_try(plugins: Plugins, cluster: &Cluster, queued: &Queued, event: &Event<'_>) -> bool {
    let gate = gates(plugins, &queued.pod);
    // For a gated pod only the gate's queueing hint counts, whichever plugins rejected the pod before.
    let asked = if gate == 0 { queued.rejectors } else { gate };
    if asked == 0 {
        return true;
    }
    if matches!(event, Event::Everything) {
        return gate == 0;
    }
    plugins.members(asked).any(|plugin| plugin.hint.is_some_and(|hint| hint(cluster, &queued.pod, event)))
}
