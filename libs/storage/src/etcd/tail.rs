//! The tail over etcd: one watch over all keys, from which records are built in the log's order.
//!
//! Progress comes only from events and progress answers, never from headers: a header names the member's revision, which this watch may not have reached. When a barrier needs
//! a later revision, the tail requests progress; a member that does not deliver in time is replaced by another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_contracts::etcd::watch_request::RequestUnion;
use oarlock_contracts::etcd::{Event, KeyValue, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use super::base::confirm;
use super::heads::{Heads, Predecessor};
use super::history::History;
use super::shared::Shared;
use crate::{Error, Record, Tail, TailBatch};

/// Pause between two progress requests.
const PROGRESS_REQUEST_INTERVAL: Duration = Duration::from_millis(100);
/// Time a member gets to deliver revisions that are known to exist.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// A reader of etcd's order.
pub(crate) struct EtcdTail {
    shared: Arc<Shared>,
    history: History,
    requests: mpsc::Sender<WatchRequest>,
    stream: Streaming<WatchResponse>,
    wanted: watch::Receiver<Revision>,
    heads: Heads,
    /// Events received and not yet converted.
    pending: VecDeque<KeyValue>,
    /// Records ready to be returned; `heads` already includes them.
    ready: Vec<Record>,
    /// Revision up to which all events have been received.
    progress: Revision,
    /// Times of the first and the last progress request while the tail is below the wanted revision.
    asked: Option<(Instant, Instant)>,
}

impl EtcdTail {
    /// Opens a watch of everything above `heads.at`.
    pub(crate) async fn open(shared: Arc<Shared>, heads: Heads) -> Result<Self, Error> {
        let history = confirm(&shared).await?;
        let (key, range_end) = shared.layout.range();
        let start_revision = history.number(heads.at.next());
        let create = WatchCreateRequest { key, range_end, start_revision, progress_notify: false };
        let (requests, stream) = shared.members.watch(request(RequestUnion::CreateRequest(create))).await?;
        let (wanted, progress) = (shared.wanted.subscribe(), heads.at);
        Ok(Self {
            shared,
            history,
            requests,
            stream,
            wanted,
            heads,
            pending: VecDeque::new(),
            ready: Vec::new(),
            progress,
            asked: None,
        })
    }

    /// Waits for one message, or until a progress request is due.
    async fn receive(&mut self) -> Result<(), Error> {
        let wanted = *self.wanted.borrow_and_update();
        self.shared.check_known()?;
        let again = if wanted > self.progress { self.ask(wanted)? } else { None };
        if again.is_none() {
            self.asked = None;
        }
        let ask_again = async {
            match again {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            message = self.stream.message() => match message {
                Ok(Some(message)) => self.take(message),
                Ok(None) => Err(Error::Unavailable("etcd ended the watch".into())),
                Err(status) => {
                    self.shared.members.leave_current();
                    Err(Error::Unavailable(format!("etcd's watch: {}", status.message())))
                }
            },
            changed = self.wanted.changed() => changed.map_err(|_| Error::Dead),
            () = ask_again => Ok(()),
        }
    }

    /// Sends a progress request when one is due; returns when the next is due.
    fn ask(&mut self, wanted: Revision) -> Result<Option<Instant>, Error> {
        let now = Instant::now();
        let (first, last) = self.asked.unwrap_or((now, now));
        if now - first > PROGRESS_TIMEOUT {
            self.shared.members.leave_current();
            return Err(Error::Unavailable(format!("etcd's watch is at {}, {wanted} exists", self.progress)));
        }
        if self.asked.is_some() && now - last < PROGRESS_REQUEST_INTERVAL {
            return Ok(Some(last + PROGRESS_REQUEST_INTERVAL));
        }
        self.asked = Some((first, now));
        // A full queue already holds such requests.
        let _full = self.requests.try_send(request(RequestUnion::ProgressRequest(WatchProgressRequest {})));
        Ok(Some(now + PROGRESS_REQUEST_INTERVAL))
    }

    fn take(&mut self, message: WatchResponse) -> Result<(), Error> {
        let header = message.header.unwrap_or_default();
        // A lagging member may be at any revision, but it must be of the right cluster.
        self.shared.check(&self.history, &header, Revision::ZERO)?;
        if message.canceled {
            if message.compact_revision > 0 {
                return Err(Error::Compacted {
                    floor: self.shared.raise_floor(self.history.revision(message.compact_revision)),
                });
            }
            return Err(Error::Unavailable(format!("etcd ended the watch: {}", message.cancel_reason)));
        }
        if message.events.is_empty() {
            let progress = !message.created || seeded_bug!("header_as_progress");
            let at = self.history.revision(header.revision);
            if progress && at > self.progress {
                // The watch makes progress: the next request may follow at once, and the stall deadline starts anew.
                self.progress = at;
                self.asked = None;
            }
            return Ok(());
        }
        for Event { kv, .. } in message.events {
            let Some(kv) = kv else { continue };
            if kv.key == self.shared.layout.base() {
                self.shared.mark_lost(&self.history);
                return Err(Error::Corrupt("the base of etcd's revisions was changed: another history begins".into()));
            }
            self.progress = self.progress.max(self.history.revision(kv.mod_revision));
            self.pending.push_back(kv);
        }
        self.asked = None;
        Ok(())
    }

    /// Converts events to up to `max` records. Stops only between revisions: a message holds whole revisions.
    async fn settle(&mut self, max: usize) -> Result<(), Error> {
        while let Some(first) = self.pending.front() {
            let (at, version) = (self.history.revision(first.mod_revision), first.version);
            if self.ready.len() >= max && self.ready.last().is_some_and(|record| record.revision < at) {
                return Ok(());
            }
            let Some(key) = self.shared.layout.decode(&first.key) else {
                self.pending.pop_front();
                continue;
            };
            let prev = match self.heads.before(&key, version) {
                Predecessor::Known(prev) => prev,
                Predecessor::Hole => {
                    return Err(Error::Corrupt(format!("etcd's watch left out a write of {key} before {at}")));
                }
                Predecessor::Unknown => {
                    let head = self.shared.head(&key, at).await?;
                    self.heads.learn(key, head);
                    continue;
                }
            };
            self.heads.note(&key, at, version);
            let value = self.pending.pop_front().filter(|_| version > 0).map(|kv| kv.value);
            self.shared.count_value(value.as_ref());
            self.ready.push(Record { revision: at, key, prev, value });
        }
        Ok(())
    }
}

#[async_trait]
impl Tail for EtcdTail {
    async fn next(&mut self, max: usize) -> Result<TailBatch, Error> {
        loop {
            self.settle(max.max(1)).await?;
            let records = std::mem::take(&mut self.ready);
            let progress = match records.last() {
                Some(last) if !self.pending.is_empty() => last.revision,
                _ => self.progress,
            };
            if progress > self.heads.at {
                self.heads.at = progress;
                self.shared.note_revision(progress);
                return Ok(TailBatch { records, progress });
            }
            self.receive().await?;
        }
    }
}

impl Drop for EtcdTail {
    fn drop(&mut self) {
        // The next tail continues with these heads and needs no lookups.
        if self.pending.is_empty() && self.ready.is_empty() {
            self.shared.keep_heads(std::mem::take(&mut self.heads));
        }
    }
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest { request_union: Some(union) }
}

/// Returns the newest compaction. Only the refusal of a watch from revision 1 names it.
pub(crate) async fn compacted(shared: &Shared) -> Result<Revision, Error> {
    // A key that is never written.
    let create = WatchCreateRequest { key: "\0".into(), start_revision: 1, ..WatchCreateRequest::default() };
    let (requests, mut stream) = shared.members.watch(request(RequestUnion::CreateRequest(create))).await?;
    let compaction = async {
        loop {
            let ask = tokio::time::timeout(PROGRESS_REQUEST_INTERVAL, stream.message()).await;
            let message = match ask {
                Ok(message) => message.map_err(|status| Error::Unavailable(status.message().to_owned()))?,
                Err(_) => {
                    let _full = requests.try_send(request(RequestUnion::ProgressRequest(WatchProgressRequest {})));
                    continue;
                }
            };
            let Some(message) = message else { return Err(Error::Unavailable("etcd ended the watch".into())) };
            if message.canceled && message.compact_revision > 0 {
                return Ok(shared.history().revision(message.compact_revision));
            }
            if message.canceled {
                return Err(Error::Unavailable(message.cancel_reason));
            }
            if !message.created {
                return Ok(Revision::ZERO);
            }
            let _full = requests.try_send(request(RequestUnion::ProgressRequest(WatchProgressRequest {})));
        }
    };
    let compaction = tokio::time::timeout(PROGRESS_TIMEOUT, compaction).await;
    compaction.unwrap_or_else(|_| Err(Error::Unavailable("etcd does not say what it compacted".into())))
}
