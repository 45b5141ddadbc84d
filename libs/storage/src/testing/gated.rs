//! A log whose commits, or barriers, wait until a test lets them through, so that it can look at the moment before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use oarlock_meta::Revision;
use tokio::sync::Semaphore;

use crate::{Append, Error, GroupOutcome, Health, Key, Loaded, Log, Record, Sharing, Tail, Value};

/// The wrapper.
pub struct GatedLog {
    inner: Arc<dyn Log>,
    gate: Arc<Semaphore>,
    arrived: Arc<Semaphore>,
    barrier_gate: Option<Arc<Semaphore>>,
    barriers: AtomicUsize,
}

impl GatedLog {
    /// Wraps a log; every commit takes one permit of [`GatedLog::gate`] before it reaches the log.
    #[must_use]
    pub fn new(inner: Arc<dyn Log>) -> Self {
        let [gate, arrived] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        Self { inner, gate, arrived, barrier_gate: None, barriers: AtomicUsize::new(0) }
    }

    /// Wraps a log; commits pass, and every barrier takes one permit of [`GatedLog::barrier_gate`] before it reaches the log.
    #[must_use]
    pub fn of_barriers(inner: Arc<dyn Log>) -> Self {
        let log = Self::new(inner);
        log.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
        Self { barrier_gate: Some(Arc::new(Semaphore::new(0))), ..log }
    }

    /// The permits barriers wait for, where they do.
    #[must_use]
    pub fn barrier_gate(&self) -> Option<Arc<Semaphore>> {
        self.barrier_gate.clone()
    }

    /// How many barriers have begun.
    #[must_use]
    pub fn barriers(&self) -> usize {
        self.barriers.load(Ordering::Acquire)
    }

    /// The permits commits wait for.
    #[must_use]
    pub fn gate(&self) -> Arc<Semaphore> {
        Arc::clone(&self.gate)
    }

    /// Gets one permit for every commit that has begun.
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
        self.inner.tail(after).await
    }

    async fn load(&self, each: &mut (dyn FnMut(Record) + Send)) -> Result<Loaded, Error> {
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

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn blocks(&self) -> bool {
        self.inner.blocks()
    }
}
