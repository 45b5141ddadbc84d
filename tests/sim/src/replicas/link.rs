//! One process's connection to the shared log, with a wire and timeouts of its own, as the etcd backend has to etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oarlock_meta::Revision;
use oarlock_runtime::{Gate, clock};
use oarlock_storage::testing::faulty::FaultyLog;
use oarlock_storage::{
    Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Sharing, Tail, TailBatch, Value,
};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::process::WINDOW;
use super::truth::Truth;
use super::wire::{Kind, Marks, Wire};

/// Time without an answer after which a call fails; the outcome of a write is then unknown.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time without a message after which a tail with undelivered entries is closed.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// One process's connection to the shared log. Clones share the connection.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) log: FaultyLog,
    pub(super) truth: Arc<Truth>,
    pub(super) wire: Arc<Wire>,
    /// Gate of the messages on the wire, which arrive even when their sender has ended.
    pub(super) net: Gate,
    /// Cancels the open tails when notified.
    pub(super) cancel: Arc<Notify>,
    /// The life of the process, cancelled when the process is killed. A dead process neither receives nor sends messages.
    pub(super) life: CancellationToken,
    pub(super) marks: Arc<Marks>,
    /// Whether the log has answered that history was compacted, so that the process may load the state anew.
    pub(super) lost: Arc<AtomicBool>,
}

impl Link {
    /// Calls the log; `None` without an answer.
    async fn ask<T, F, R>(&self, call: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce(FaultyLog) -> R + Send + 'static,
        R: Future<Output = T> + Send,
    {
        self.alive().await;
        let deadline = clock::after(CALL_TIMEOUT);
        let ((sender, answer), wire, log) = (oneshot::channel(), Arc::clone(&self.wire), self.log.clone());
        let message = async move {
            if wire.pass(Kind::Request).await {
                let told = call(log).await;
                if wire.pass(Kind::Answer).await {
                    let _gave_up = sender.send(told);
                }
            }
        };
        self.net.spawn("to the log", message).unwrap();
        let answer = clock::timeout_at(deadline, answer).await.ok().and_then(Result::ok);
        if answer.is_none() {
            clock::sleep_until(deadline).await;
        }
        self.alive().await;
        answer
    }

    /// Completes while the process is alive; never completes once the process is dead.
    async fn alive(&self) {
        if self.life.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

fn silent() -> Error {
    Error::Unavailable("the log does not answer".to_owned())
}

#[async_trait]
impl Log for Link {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let count = groups.len();
        let outcomes = self.ask(|log| async move { log.commit(groups).await }).await;
        outcomes.unwrap_or_else(|| (0..count).map(|_| Ok(GroupOutcome::Unknown)).collect())
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        let inner = self.ask(move |log| async move { log.tail(after).await }).await.ok_or_else(silent)?;
        if let Err(Error::Compacted { .. }) = &inner {
            self.lost.store(true, Ordering::Relaxed);
        }
        Ok(Box::new(LinkTail { link: self.clone(), inner: inner? }))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        let load = |log: FaultyLog| async move {
            let mut pieces = Vec::new();
            let loaded = log.load(&mut |piece| pieces.push(piece)).await;
            loaded.map(|loaded| (loaded, pieces))
        };
        let (loaded, pieces) = self.ask(load).await.ok_or_else(silent)??;
        if self.lost.swap(false, Ordering::Relaxed) {
            // A process that lost its tail loads the latest state and has no history before that.
            self.truth.floor(loaded.revision);
        }
        pieces.into_iter().for_each(each);
        Ok(loaded)
    }

    async fn body(&self, key: &Key, revision: Revision) -> Result<Option<Value>, Error> {
        let key = key.clone();
        self.ask(move |log| async move { log.body(&key, revision).await }).await.ok_or_else(silent)?
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        self.ask(|log| async move { log.barrier().await }).await.ok_or_else(silent)?
    }

    async fn trim(&self, revision: Revision) -> Result<(), Error> {
        assert!(self.truth.is_older(revision, WINDOW), "{revision} is trimmed before its time");
        // The process has already trimmed its own window, whether or not the log gets trimmed.
        self.truth.floor(revision);
        self.ask(move |log| async move { log.trim(revision).await }).await.ok_or_else(silent)?
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.ask(|log| async move { log.compacted().await }).await.ok_or_else(silent)?
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        self.ask(move |log| async move { log.raise(to).await }).await.ok_or_else(silent)?
    }

    fn health(&self) -> Health {
        self.log.health()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }
}

struct LinkTail {
    link: Link,
    inner: Box<dyn Tail>,
}

#[async_trait]
impl Tail for LinkTail {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        let link = &self.link;
        let batch = tokio::select! {
            biased;
            () = link.cancel.notified() => {
                link.marks.note("tail cancelled", 1);
                Err(Error::Unavailable("the tail was cancelled".to_owned()))
            }
            batch = self.inner.next(max) => batch,
        };
        let silence = clock::after(KEEPALIVE);
        let arrived = clock::timeout_at(silence, link.wire.pass(Kind::Stream)).await;
        if arrived != Ok(true) {
            clock::sleep_until(silence).await;
        }
        link.alive().await;
        if arrived != Ok(true) {
            return Err(silent());
        }
        if let Err(Error::Compacted { .. }) = &batch {
            link.marks.note("compacted under a reader", 1);
            link.lost.store(true, Ordering::Relaxed);
        }
        batch
    }
}
