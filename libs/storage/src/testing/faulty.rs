//! A log wrapper that injects faults: loses answers, drops and delays writes, stalls, repeats and compacts records under readers.
//!
//! All faults are allowed by the contract of a shared [`Log`]; users of a log must cope with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use oarlock_meta::Revision;
use parking_lot::Mutex;

use super::rng::Rng;
use crate::{Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Record, Sharing, Tail, TailBatch, Value};

/// Probability of each fault, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A commit is made but its answer is lost.
    pub lose_answer: u32,
    /// A commit is not made, and its outcome is unknown.
    pub drop: u32,
    /// A commit's outcome is unknown, and the commit is made before some later call.
    pub late: u32,
    /// A commit or a barrier is refused as unavailable.
    pub refuse: u32,
    /// A tail delivers nothing for a while although records exist.
    pub stall: u32,
    /// A tail delivers records again.
    pub repeat: u32,
    /// A tail finds history compacted up to a revision above its position.
    pub compact: u32,
}

impl Faults {
    /// All faults at high rates.
    pub const MANY: Self = Self { lose_answer: 10, drop: 8, late: 8, refuse: 6, stall: 15, repeat: 20, compact: 2 };
    /// All faults except compaction.
    pub const NO_COMPACTION: Self = Self { compact: 0, ..Self::MANY };
}

/// Counters of injected faults. A run without faults proves nothing.
#[derive(Debug, Default)]
pub struct FaultCounts {
    /// Answers lost.
    pub lost_answers: AtomicU64,
    /// Commits dropped.
    pub dropped: AtomicU64,
    /// Commits made late.
    pub late: AtomicU64,
    /// Calls refused.
    pub refused: AtomicU64,
    /// Tails stalled.
    pub stalled: AtomicU64,
    /// Records repeated.
    pub repeated: AtomicU64,
    /// Tails compacted away.
    pub compacted: AtomicU64,
}

impl FaultCounts {
    /// Returns all counters with their names.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 7] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("lost answers", read(&self.lost_answers)),
            ("dropped", read(&self.dropped)),
            ("late", read(&self.late)),
            ("refused", read(&self.refused)),
            ("stalled", read(&self.stalled)),
            ("repeated", read(&self.repeated)),
            ("compacted", read(&self.compacted)),
        ]
    }
}

/// A [`Log`] that injects faults before another log. Clones share the log.
#[derive(Clone)]
pub struct FaultyLog {
    shared: Arc<Shared>,
}

/// State shared by all clones of a [`FaultyLog`].
struct Shared {
    inner: Arc<dyn Log>,
    faults: Faults,
    rng: Mutex<Rng>,
    held: Mutex<Vec<Vec<Vec<Append>>>>,
    bites: Arc<FaultCounts>,
    calm: std::sync::atomic::AtomicBool,
}

impl FaultyLog {
    /// Wraps a log; faults are drawn from `seed`.
    #[must_use]
    pub fn new(inner: Arc<dyn Log>, faults: Faults, seed: u64) -> Self {
        let (rng, held, bites, calm) = (Mutex::new(Rng::new(seed)), Mutex::default(), Arc::default(), false.into());
        Self { shared: Arc::new(Shared { inner, faults, rng, held, bites, calm }) }
    }

    /// Returns the counters of injected faults.
    #[must_use]
    pub fn fault_counts(&self) -> Arc<FaultCounts> {
        Arc::clone(&self.shared.bites)
    }

    /// Stops injecting faults; delayed commits are made by the next call.
    pub fn calm(&self) {
        self.shared.calm.store(true, Ordering::Release);
    }
}

impl Shared {
    fn draws(&self, percent: u32) -> bool {
        !self.calm.load(Ordering::Acquire) && self.rng.lock().percent(percent)
    }

    fn strikes(&self, percent: u32, counter: &AtomicU64) -> bool {
        let strikes = self.draws(percent);
        counter.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes
    }

    /// Makes the delayed commits.
    async fn catch_up(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        for groups in held {
            self.inner.commit(groups).await;
        }
    }
}

#[async_trait]
impl Log for FaultyLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let shared = &self.shared;
        let (faults, bites) = (&shared.faults, &shared.bites);
        let unknown = |n: usize| (0..n).map(|_| Ok(GroupOutcome::Unknown)).collect();
        let count = groups.len();
        if shared.strikes(faults.refuse, &bites.refused) {
            return groups.iter().map(|_| Err(Error::Unavailable("refused by the test".into()))).collect();
        }
        if shared.strikes(faults.drop, &bites.dropped) {
            return unknown(count);
        }
        if shared.strikes(faults.late, &bites.late) {
            shared.held.lock().push(groups);
            return unknown(count);
        }
        // A delayed commit may also follow a later one, so it precedes this one only sometimes.
        let ahead = shared.rng.lock().percent(50);
        if ahead {
            shared.catch_up().await;
        }
        let outcomes = shared.inner.commit(groups).await;
        if !ahead {
            shared.catch_up().await;
        }
        if shared.strikes(faults.lose_answer, &bites.lost_answers) { unknown(count) } else { outcomes }
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        self.shared.catch_up().await;
        let inner = self.shared.inner.tail(after).await?;
        Ok(Box::new(FaultyTail { shared: Arc::clone(&self.shared), inner, last: Vec::new(), progress: after }))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        self.shared.catch_up().await;
        self.shared.inner.load(each).await
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        self.shared.inner.body(key, revision).await
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.shared.catch_up().await;
        if self.shared.strikes(self.shared.faults.refuse, &self.shared.bites.refused) {
            return Err(Error::Unavailable("refused by the test".into()));
        }
        self.shared.inner.barrier().await
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        self.shared.inner.trim(revision).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.shared.inner.compacted().await
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.shared.inner.raise(to).await
    }

    fn health(&self) -> Health {
        self.shared.inner.health()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn blocks(&self) -> bool {
        self.shared.inner.blocks()
    }
}

/// A tail that stalls, repeats records and reports compactions.
struct FaultyTail {
    shared: Arc<Shared>,
    inner: Box<dyn Tail>,
    last: Vec<Record>,
    progress: Revision,
}

#[async_trait]
impl Tail for FaultyTail {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        let (faults, bites) = (&self.shared.faults, &self.shared.bites);
        if self.shared.strikes(faults.stall, &bites.stalled) {
            tokio::task::yield_now().await;
            return Ok(TailBatch { records: Vec::new(), progress: self.progress });
        }
        if !self.last.is_empty() && self.shared.strikes(faults.repeat, &bites.repeated) {
            return Ok(TailBatch { records: self.last.clone(), progress: self.progress });
        }
        let compacts = self.shared.draws(faults.compact);
        // A tail may also deliver small batches.
        let max = 1 + usize::try_from(self.shared.rng.lock().below(max as u64)).unwrap_or(0);
        let batch = self.inner.next(max).await?;
        // Compaction can hit only a tail that lacks records.
        if compacts && !batch.records.is_empty() {
            bites.compacted.fetch_add(1, Ordering::Relaxed);
            let floor = self.shared.inner.barrier().await?;
            self.shared.inner.trim(floor).await?;
            return Err(Error::Compacted { floor });
        }
        self.progress = batch.progress;
        self.last.clone_from(&batch.records);
        Ok(batch)
    }
}
