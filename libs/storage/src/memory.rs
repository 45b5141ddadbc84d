//! The in-memory log, for `--ephemeral` and tests. Data lives as long as the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Revision;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::follow::{Follower, Past};
use crate::heads::Heads;
use crate::{Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Record, Sharing, Tail, Value};

/// A [`Log`] that keeps all data in memory. Clones share the log.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

/// State shared by all clones of a [`MemoryLog`].
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    tip: watch::Sender<Revision>,
}

#[derive(Debug, Default)]
struct State {
    heads: Heads,
    records: BTreeMap<Revision, Record>,
    bytes: u64,
}

impl MemoryLog {
    /// Creates an empty log at revision 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl State {
    /// Raises the floor and deletes versions that nothing above it needs.
    fn forget(&mut self, floor: Revision) {
        self.heads.raise_floor(floor);
        for version in self.heads.take_stale(usize::MAX) {
            if let Some(record) = self.records.remove(&version) {
                self.bytes -= size(&record);
            }
        }
    }
}

impl Past for Shared {
    fn after(&self, after: Revision, max: usize) -> Result<Vec<Record>, Error> {
        let state = self.state.lock();
        if after < state.heads.floor() {
            return Err(Error::Compacted { floor: state.heads.floor() });
        }
        let above = (Bound::Excluded(after), Bound::Unbounded);
        Ok(state.records.range(above).take(max).map(|(_, record)| record.clone()).collect())
    }
}

fn size(record: &Record) -> u64 {
    record.value.as_ref().map_or(0, bytes::Bytes::len) as u64
}

#[async_trait]
impl Log for MemoryLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let mut state = self.shared.state.lock();
        let plan = state.heads.plan(&groups, false);
        for record in plan.records {
            state.heads.note(&record);
            state.bytes += size(&record);
            state.records.insert(record.revision, record);
        }
        let last = state.heads.last();
        drop(state);
        self.shared.tip.send_replace(last);
        plan.answers
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        self.shared.after(after, 0)?;
        Ok(Box::new(Follower::new(Arc::clone(&self.shared), self.shared.tip.subscribe(), after)))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        let state = self.shared.state.lock();
        state.records.values().cloned().for_each(LoadPart::of(state.heads.floor(), each));
        Ok(Loaded { revision: state.heads.last(), floor: state.heads.floor() })
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        let state = self.shared.state.lock();
        Ok(state.records.get(&revision).filter(|record| record.key == *key).and_then(|record| record.value.clone()))
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        Ok(self.shared.state.lock().heads.last())
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        let current = state.heads.last();
        if revision > current {
            return Err(Error::Future { asked: revision, current });
        }
        state.forget(revision);
        Ok(())
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        let floor = state.heads.last().max(to);
        state.forget(floor);
        drop(state);
        self.shared.tip.send_replace(floor);
        Ok(())
    }

    fn health(&self) -> Health {
        let state = self.shared.state.lock();
        Health {
            writable: true,
            dead: false,
            revision: state.heads.last(),
            floor: state.heads.floor(),
            history_bytes: state.heads.stale_bytes(),
            stored_bytes: state.bytes,
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }
}
