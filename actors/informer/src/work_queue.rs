//! The work queue: each key at most once, never on two workers at once, later if need be (upstream `client-go/util/workqueue`).
//!
//! It holds at most one entry for each key, so the number of objects bounds it; nothing is ever refused, because a level-triggered
//! consumer cannot do without a key.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use oarlock_runtime::clock::{self, Instant};
use oarlock_runtime::kind::Backoff;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// The pauses after failures of one key: 5 ms doubling to 1000 s, as client-go.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_secs(1000) };

/// Numbers for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys that workers have.
    pub processing: usize,
    /// Keys that failed and have not succeeded since.
    pub failing: usize,
    /// Keys that were added so far, without those that waited already.
    pub added: u64,
    /// Keys handed to workers so far.
    pub taken: u64,
    /// Failures so far.
    pub retries: u64,
}

/// See the module text.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    ready: Notify,
    backoff: Backoff,
}

struct State<K> {
    /// Keys for workers with the time they came, oldest first.
    order: VecDeque<(K, Instant)>,
    /// Keys that want work: those in `order`, and those a worker has that were added again.
    wanted: HashSet<K>,
    processing: HashSet<K>,
    delayed: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
    closed: bool,
    added: u64,
    taken: u64,
    retries: u64,
}

impl<K> std::fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.stats()).finish()
    }
}

impl<K> WorkQueue<K> {
    /// Numbers for operators.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        let state = self.state.lock();
        QueueStats {
            ready: state.order.len(),
            delayed: state.delayed.len(),
            processing: state.processing.len(),
            failing: state.failures.len(),
            added: state.added,
            taken: state.taken,
            retries: state.retries,
        }
    }
}

impl<K: Clone + Ord + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::with_backoff(BACKOFF)
    }
}

impl<K: Clone + Ord + Hash> WorkQueue<K> {
    /// An empty queue with its own pauses after failures.
    #[must_use]
    pub fn with_backoff(backoff: Backoff) -> Self {
        let state = State {
            order: VecDeque::new(),
            wanted: HashSet::new(),
            processing: HashSet::new(),
            delayed: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            closed: false,
            added: 0,
            taken: 0,
            retries: 0,
        };
        Self { state: Mutex::new(state), ready: Notify::new(), backoff }
    }

    /// Wants work on a key as soon as possible. A key that waits already stays where it is; one that a worker has comes again when the
    /// worker is done.
    pub fn add(&self, key: K) {
        let mut state = self.state.lock();
        state.add(key);
        drop(state);
        self.ready.notify_one();
    }

    /// Wants work on a key in `delay`. Of several delays the shortest holds.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = clock::after(delay);
        let mut state = self.state.lock();
        if state.closed || state.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        if let Some(due) = state.due.insert(key.clone(), at) {
            state.delayed.remove(&(due, key.clone()));
        }
        state.delayed.insert((at, key));
        drop(state);
        self.ready.notify_one();
    }

    /// Wants work on a key that failed, after a pause that doubles with each failure since the last [`WorkQueue::forget`]. Returns the pause.
    pub fn add_failed(&self, key: K) -> Duration {
        let mut state = self.state.lock();
        let failures = state.failures.entry_ref(&key).or_insert(0);
        *failures = failures.saturating_add(1);
        let pause = self.backoff.pause(*failures);
        state.retries += 1;
        drop(state);
        self.add_after(key, pause);
        pause
    }

    /// A key succeeded: its next failure is its first.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// How often a key failed since it last succeeded.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// The next key; `None` when the queue is closed and nothing is ready. Nobody else gets the key until [`WorkQueue::done`]. Cancel safe.
    pub async fn get(&self) -> Option<K> {
        self.get_timed().await.map(|(key, _)| key)
    }

    /// As [`WorkQueue::get`], with the time that the key waited.
    pub async fn get_timed(&self) -> Option<(K, Duration)> {
        loop {
            let mut ready = std::pin::pin!(self.ready.notified());
            ready.as_mut().enable();
            let next = {
                let mut state = self.state.lock();
                state.promote();
                if let Some(taken) = state.take() {
                    // Another worker may be waiting for what is left.
                    if !state.order.is_empty() {
                        self.ready.notify_one();
                    }
                    return Some(taken);
                }
                if state.closed {
                    self.ready.notify_one();
                    return None;
                }
                state.delayed.first().map(|(at, _)| *at)
            };
            match next {
                Some(at) => {
                    let _: Result<(), clock::Elapsed> = clock::timeout_at(at, ready).await;
                }
                None => ready.await,
            }
        }
    }

    /// The worker has finished with the key, whatever came of it.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.processing.remove(key);
        if state.wanted.contains(key) {
            state.order.push_back((key.clone(), clock::now()));
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Takes nothing more; what is ready can still be got.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.ready.notify_one();
    }
}

impl<K: Clone + Ord + Hash> State<K> {
    fn add(&mut self, key: K) {
        if self.closed || !self.wanted.insert(key.clone()) {
            return;
        }
        self.added += 1;
        if !self.processing.contains(&key) || seeded_bug!("two_workers_one_key") {
            self.order.push_back((key, clock::now()));
        }
    }

    /// Moves the keys whose time has come.
    fn promote(&mut self) {
        let now = clock::now();
        while let Some((at, _)) = self.delayed.first()
            && *at <= now
        {
            let Some((_, key)) = self.delayed.pop_first() else { return };
            self.due.remove(&key);
            self.add(key);
        }
    }

    fn take(&mut self) -> Option<(K, Duration)> {
        let (key, since) = self.order.pop_front()?;
        self.wanted.remove(&key);
        self.processing.insert(key.clone());
        self.taken += 1;
        Some((key, since.elapsed()))
    }
}
