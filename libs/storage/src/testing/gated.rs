//! A log wrapper whose commits, barriers or tails wait for permits, so that a test can inspect the state before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use oarlock_meta::Revision;
use tokio::sync::{Semaphore, watch};

use crate::{Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Sharing, Tail, TailBatch, Value};

/// A [`Log`] whose commits, barriers or tails wait for permits.
pub struct GatedLog {
    inner: Arc<dyn Log>,
    gate: Arc<Semaphore>,
    arrived: Arc<Semaphore>,
    barrier_gate: Option<Arc<Semaphore>>,
    barriers: AtomicUsize,
    tails: Option<watch::Sender<bool>>,
    broken: watch::Sender<()>,
}

impl GatedLog {
    /// Wraps a log; each commit takes one permit of [`GatedLog::gate`] before it reaches the log.
    #[must_use]
    pub fn new(inner: Arc<dyn Log>) -> Self {
        let [gate, arrived] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        Self {
            inner,
            gate,
            arrived,
            barrier_gate: None,
            barriers: AtomicUsize::new(0),
            tails: None,
            broken: watch::Sender::new(()),
        }
    }

    /// Wraps a log; commits pass, and each barrier takes one permit of [`GatedLog::barrier_gate`] before it reaches the log.
    #[must_use]
    pub fn of_barriers(inner: Arc<dyn Log>) -> Self {
        let log = Self::new(inner);
        log.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
        Self { barrier_gate: Some(Arc::new(Semaphore::new(0))), ..log }
    }

    /// Wraps a log as a shared one; commits and barriers pass, and tails deliver nothing while [`GatedLog::hold_tails`] is on.
    #[must_use]
    pub fn of_tails(inner: Arc<dyn Log>) -> Self {
        let log = Self::new(inner);
        log.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
        Self { tails: Some(watch::Sender::new(false)), ..log }
    }

    /// Stops or resumes tails.
    pub fn hold_tails(&self, hold: bool) {
        if let Some(tails) = &self.tails {
            tails.send_replace(hold);
        }
    }

    /// Makes all current tails report a missing record.
    pub fn break_tails(&self) {
        self.broken.send_replace(());
    }

    /// Returns the semaphore that barriers wait for, if barriers are gated.
    #[must_use]
    pub fn barrier_gate(&self) -> Option<Arc<Semaphore>> {
        self.barrier_gate.clone()
    }

    /// Returns how many barriers have begun.
    #[must_use]
    pub fn barriers(&self) -> usize {
        self.barriers.load(Ordering::Acquire)
    }

    /// Returns the semaphore that commits wait for.
    #[must_use]
    pub fn gate(&self) -> Arc<Semaphore> {
        Arc::clone(&self.gate)
    }

    /// Returns a receiver of one permit for every commit that has begun.
    #[must_use]
    pub fn arrived(&self) -> Arc<Semaphore> {
        Arc::clone(&self.arrived)
    }
}

#[async_trait]
impl Log for GatedLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        self.arrived.add_permits(1);
        match self.gate.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return groups.iter().map(|_| Err(Error::Dead)).collect(),
        }
        self.inner.commit(groups).await
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        let inner = self.inner.tail(after).await?;
        Ok(match &self.tails {
            Some(tails) => Box::new(GatedTail { inner, held: tails.subscribe(), broken: self.broken.subscribe() }),
            None => inner,
        })
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        self.inner.load(each).await
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        self.inner.body(key, revision).await
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.barriers.fetch_add(1, Ordering::AcqRel);
        if let Some(gate) = &self.barrier_gate {
            gate.acquire().await.map_err(|_| Error::Dead)?.forget();
        }
        self.inner.barrier().await
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        self.inner.trim(revision).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.inner.compacted().await
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.inner.raise(to).await
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn sharing(&self) -> Sharing {
        // Callers use a barrier only on a shared log.
        if self.barrier_gate.is_some() || self.tails.is_some() { Sharing::Shared } else { self.inner.sharing() }
    }

    fn blocks(&self) -> bool {
        self.inner.blocks()
    }
}

/// A tail that waits while its log holds tails.
struct GatedTail {
    inner: Box<dyn Tail>,
    held: watch::Receiver<bool>,
    broken: watch::Receiver<()>,
}

#[async_trait]
impl Tail for GatedTail {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        loop {
            self.held.wait_for(|held| !held).await.map_err(|_| Error::Dead)?;
            tokio::select! {
                biased;
                _ = self.broken.changed() => return Err(Error::Corrupt("broken by the test".into())),
                _ = self.held.wait_for(|held| *held) => {}
                batch = self.inner.next(max) => return batch,
            }
        }
    }
}
