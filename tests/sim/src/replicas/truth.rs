//! The log that all replicas share. It records each commit from its own tail before any process receives the commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_check::history::{Floor, Line, Record, Truth as Covered};
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, clock};
use oarlock_storage::{
    Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, MemoryLog, Sharing, Tail, TailBatch, Value,
};
use oarlock_testkit::history::{body, tag};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::history::Recorder;

/// The prefix of all keys, which histories omit.
pub(crate) const ROOT: &str = "/registry/";

/// The log that all replicas share, with a record of every commit.
pub(crate) struct Truth {
    log: MemoryLog,
    own: Mutex<Box<dyn Tail>>,
    /// The time of each commit.
    times: Mutex<BTreeMap<Revision, Instant>>,
    moved: Arc<Notify>,
    recorder: Arc<Recorder>,
}

impl Truth {
    pub(crate) async fn new(recorder: Arc<Recorder>) -> Self {
        let log = MemoryLog::new();
        let own = Mutex::new(log.tail(Revision::ZERO).await.unwrap());
        Self { log, own, times: Mutex::default(), moved: Arc::default(), recorder }
    }

    /// Returns the last revision.
    pub(crate) fn revision(&self) -> Revision {
        self.log.health().revision
    }

    /// Whether the log has held all revisions up to this one for at least `age`.
    pub(crate) fn is_older(&self, revision: Revision, age: Duration) -> bool {
        self.times.lock().get(&revision).is_some_and(|at| at.elapsed() >= age)
    }

    /// Records that history up to a revision may be compacted.
    pub(crate) fn floor(&self, revision: Revision) {
        self.recorder.write(Line::Floor(Floor { revision: revision.get(), at: self.recorder.now() }));
    }

    /// Records which keys and writers the history covers.
    pub(crate) fn close(&self, own: Vec<String>) {
        self.recorder.write(Line::Truth(Covered { after: 0, through: self.revision().get(), own }));
    }

    fn write_down(&self) {
        let mut own = self.own.lock();
        while let Some(batch) = own.next(1024).now_or_never() {
            for record in batch.unwrap().records {
                self.times.lock().insert(record.revision, clock::now());
                let object = record.value.as_ref().map(|value| serde_json::from_slice(value).unwrap());
                let object: Option<serde_json::Value> = object;
                let labels = object.as_ref().and_then(|object| object["metadata"]["labels"].as_object());
                let labels = labels.into_iter().flatten().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
                self.recorder.write(Line::Record(Record {
                    revision: record.revision.get(),
                    key: record.key.as_str().trim_start_matches(ROOT).to_owned(),
                    prev: record.prev.map(Revision::get),
                    body: object.as_ref().map(body),
                    tag: object.as_ref().and_then(|object| tag(object).map(str::to_owned)),
                    labels: labels.collect(),
                }));
            }
        }
    }
}

#[async_trait]
impl Log for Truth {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let outcomes = self.log.commit(groups).await;
        self.write_down();
        self.moved.notify_waiters();
        outcomes
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        Ok(Box::new(Following { inner: self.log.tail(after).await?, moved: Arc::clone(&self.moved) }))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        self.log.load(each).await
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        self.log.body(key, revision).await
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.log.barrier().await
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        self.log.trim(revision).await?;
        self.floor(revision);
        Ok(())
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.log.compacted().await
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.log.raise(to).await
    }

    fn health(&self) -> Health {
        self.log.health()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }
}

/// A tail with a deterministic wake order: tokio draws the wake order of the memory log.
struct Following {
    inner: Box<dyn Tail>,
    moved: Arc<Notify>,
}

#[async_trait]
impl Tail for Following {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(batch) = self.inner.next(max).now_or_never() {
                return batch;
            }
            moved.await;
        }
    }
}
