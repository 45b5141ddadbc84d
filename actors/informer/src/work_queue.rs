//! The work queue of a controller: holds each key at most once, never gives a key to two workers, delays keys on request (upstream
//! `client-go/util/workqueue`).
//!
//! The queue is bounded by the number of objects. No key is ever refused, because a level-triggered consumer must not miss a key.

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

/// The counts of a work queue, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys whose delay has not passed.
    pub delayed: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// Keys that failed and have not succeeded since.
    pub failing: usize,
    /// Keys added so far, not counting keys that waited already.
    pub added: u64,
    /// Keys handed to workers so far.
    pub taken: u64,
    /// Failures so far.
    pub retries: u64,
}

/// A deduplicating queue of keys with delays and per-key back-off.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    ready: Notify,
    backoff: Backoff,
}

struct State<K> {
    /// Keys ready for a worker with the time they became ready, oldest first.
    order: VecDeque<(K, Instant)>,
    /// Keys that need processing: those in `order`, and those that were added again while a worker processes them.
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
    /// Returns the queue's counts.
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
    /// An empty queue with the given back-off after failures.
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

    /// Returns the queue's counts. A key whose delay has passed counts as ready, whether or not a worker has asked for a key since.
    pub(crate) fn stats_now(&self) -> QueueStats {
        self.state.lock().promote();
        self.stats()
    }

    /// Adds a key for processing as soon as possible. A key that waits already keeps its place; a key that a worker processes is queued again when the
    /// worker is done.
    pub fn add(&self, key: K) {
        let mut state = self.state.lock();
        state.add(key);
        drop(state);
        self.ready.notify_one();
    }

    /// Adds a key for processing after `delay`. Of several delays of one key the earliest end holds.
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

    /// Adds a key that failed, after a pause that doubles with each failure since the last [`WorkQueue::forget`]. Returns the pause.
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

    /// Resets the failure count of a key that succeeded.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// The number of failures of a key since the last success.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Waits for the next key; `None` when the queue is closed and no key is ready. No other worker gets the key until [`WorkQueue::done`]. Cancel safe.
    pub async fn get(&self) -> Option<K> {
        self.get_timed().await.map(|(key, _)| key)
    }

    /// As [`WorkQueue::get`], and returns the time that the key waited.
    pub async fn get_timed(&self) -> Option<(K, Duration)> {
        loop {
            let mut ready = std::pin::pin!(self.ready.notified());
            ready.as_mut().enable();
            let next = {
                let mut state = self.state.lock();
                state.promote();
                if let Some(taken) = state.take() {
                    // One notification wakes one worker; the remaining keys are for another.
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

    /// Ends the processing of a key, successful or not.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.processing.remove(key);
        if state.wanted.contains(key) {
            state.order.push_back((key.clone(), clock::now()));
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Closes the queue: further keys are ignored, ready keys can still be taken.
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

    /// Makes the keys ready whose delay has passed.
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
