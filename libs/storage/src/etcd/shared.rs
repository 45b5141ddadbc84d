//! State shared by all calls of one etcd log: the members and the facts learnt from answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use oarlock_contracts::etcd::{KeyValue, Kv, RangeRequest, RangeResponse, ResponseHeader};
use oarlock_meta::Revision;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tonic::{Code, Status};

use super::client::{Failure, Members};
use super::heads::{Head, Heads};
use super::history::History;
use super::layout::Layout;
use crate::{Error, Health, Key};

/// Answer to a range request.
#[derive(Debug)]
pub(crate) struct RangeAnswer {
    pub(crate) history: History,
    /// Revision of the store when it answered.
    pub(crate) at: Revision,
    pub(crate) kvs: Vec<KeyValue>,
    pub(crate) more: bool,
}

/// Shared state of one etcd log: client, key layout, current history and the revisions seen.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) layout: Layout,
    /// Revision that the tail must reach, because a barrier found it to exist.
    pub(crate) wanted: watch::Sender<Revision>,
    pub(crate) full: AtomicBool,
    pub(crate) stored_bytes: AtomicU64,
    history: RwLock<History>,
    /// Set when etcd holds another history than the known one: all calls fail until everything is loaded again.
    lost: AtomicBool,
    /// Latest revision known to exist.
    seen: AtomicU64,
    floor: AtomicU64,
    /// Number of values seen and their bytes, for the average size of a version.
    values: AtomicU64,
    value_bytes: AtomicU64,
    heads: Mutex<Heads>,
}

impl Shared {
    pub(crate) fn new(members: Members, layout: Layout) -> Self {
        Self {
            members,
            layout,
            wanted: watch::Sender::new(Revision::ZERO),
            full: AtomicBool::new(false),
            stored_bytes: AtomicU64::new(0),
            history: RwLock::default(),
            lost: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            values: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
            heads: Mutex::default(),
        }
    }

    /// Reads a range of the store; `range.revision` is etcd's revision.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Future`], [`Error::Unavailable`]; [`Error::Corrupt`] when everything must be loaded again.
    pub(crate) async fn range(&self, range: RangeRequest) -> Result<RangeAnswer, Error> {
        self.check_known()?;
        let (history, before) = (self.history(), self.seen());
        let asked = history.revision(range.revision);
        match self.members.read(Kv::RANGE, range).await {
            Ok(answer) => {
                let RangeResponse { header, kvs, more } = answer;
                let header = header.unwrap_or_default();
                self.check(&history, &header, before)?;
                let at = history.revision(header.revision);
                self.note_revision(at);
                Ok(RangeAnswer { history, at, kvs, more })
            }
            Err(Failure::Refused(status)) => Err(self.refused(&status, asked)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Reads the head of a key just before `at`; `None` when the key did not exist.
    ///
    /// # Errors
    /// As [`Shared::range`].
    pub(crate) async fn head(&self, key: &Key, at: Revision) -> Result<Option<Head>, Error> {
        let key = self.layout.encode(key);
        let revision = self.history().number(at) - 1;
        let found = self.range(RangeRequest { key, revision, keys_only: true, ..RangeRequest::default() }).await?;
        Ok(found.kvs.first().map(|kv| Head { revision: found.history.revision(kv.mod_revision), version: kv.version }))
    }

    /// Converts a refusal of etcd to an error of the log.
    pub(crate) fn refused(&self, status: &Status, asked: Revision) -> Error {
        let said = status.message();
        if said.contains("has been compacted") {
            Error::Compacted { floor: self.floor() }
        } else if said.contains("future revision") {
            Error::Future { asked, current: self.seen() }
        } else if said.contains("database space exceeded") {
            self.full.store(true, Ordering::Release);
            Error::ReadOnly
        } else if status.code() == Code::InvalidArgument && said.contains("too large") {
            Error::Unavailable(format!("etcd: {said} (its --max-request-bytes)"))
        } else {
            Error::Unavailable(format!("etcd: {said}"))
        }
    }

    /// Returns the history that revisions currently refer to.
    pub(crate) fn history(&self) -> History {
        *self.history.read()
    }

    /// Checks that an answer comes from the history that the View holds and is not older than `before`, a revision seen before the request was sent.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when everything must be loaded again.
    pub(crate) fn check(&self, history: &History, header: &ResponseHeader, before: Revision) -> Result<(), Error> {
        let (known, found) = (history.cluster, header.cluster_id);
        let now = history.revision(header.revision);
        let text = if found != known && found != 0 {
            format!("etcd's cluster is {found:x}, it was {known:x}")
        } else if now < before {
            format!("etcd is at {now}, it was at {before}: an older state was restored")
        } else {
            return Ok(());
        };
        self.mark_lost(history);
        Err(Error::Corrupt(text))
    }

    /// Fails when etcd no longer holds the known history.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn check_known(&self) -> Result<(), Error> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::Corrupt("etcd holds another history, which is not read yet".into()));
        }
        Ok(())
    }

    /// Records that etcd no longer holds this history; its tails end.
    pub(crate) fn mark_lost(&self, history: &History) {
        if self.history() == *history {
            self.lost.store(true, Ordering::Release);
            self.wanted.send_modify(|_| ());
        }
    }

    /// Adopts a history and discards what was learnt of another one.
    pub(crate) fn adopt_history(&self, history: History) {
        let mut known = self.history.write();
        if *known != history {
            *known = history;
            for number in [&self.seen, &self.floor] {
                number.store(0, Ordering::Release);
            }
            self.wanted.send_replace(Revision::ZERO);
            *self.heads.lock() = Heads::default();
        }
        self.lost.store(false, Ordering::Release);
        drop(known);
        self.raise_floor(history.floor());
    }

    /// Records that a revision exists.
    pub(crate) fn note_revision(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// Requests that the tail reach this revision.
    pub(crate) fn request_progress(&self, revision: Revision) {
        self.wanted.send_if_modified(|wanted| {
            let rises = revision > *wanted;
            *wanted = revision.max(*wanted);
            rises
        });
    }

    /// Returns the latest revision known to exist.
    pub(crate) fn seen(&self) -> Revision {
        Revision(self.seen.load(Ordering::Acquire))
    }

    /// Returns the newest known compaction.
    pub(crate) fn floor(&self) -> Revision {
        Revision(self.floor.load(Ordering::Acquire))
    }

    /// Records a compaction; returns the newest one.
    pub(crate) fn raise_floor(&self, floor: Revision) -> Revision {
        self.floor.fetch_max(floor.get(), Ordering::AcqRel);
        self.floor()
    }

    /// Counts a written value for the average size.
    pub(crate) fn count_value(&self, value: Option<&Bytes>) {
        self.values.fetch_add(1, Ordering::Relaxed);
        self.value_bytes.fetch_add(value.map_or(0, Bytes::len) as u64, Ordering::Relaxed);
    }

    /// Stores the heads of a finished tail, for a tail that starts at the same revision.
    pub(crate) fn keep_heads(&self, heads: Heads) {
        *self.heads.lock() = heads;
    }

    /// Takes the heads as of `at`, if the last tail ended at that revision; otherwise returns empty heads.
    pub(crate) fn take_heads(&self, at: Revision) -> Heads {
        let mut kept = self.heads.lock();
        if kept.at == at { std::mem::take(&mut *kept) } else { Heads::new(at) }
    }

    /// Returns the condition of the store, according to its last answers.
    pub(crate) fn health(&self) -> Health {
        let (revision, floor) = (self.seen(), self.floor());
        let mean = self.value_bytes.load(Ordering::Relaxed) / self.values.load(Ordering::Relaxed).max(1);
        Health {
            writable: !self.full.load(Ordering::Acquire),
            dead: false,
            revision,
            floor,
            history_bytes: revision.get().saturating_sub(floor.get()).saturating_mul(mean),
            stored_bytes: self.stored_bytes.load(Ordering::Relaxed),
        }
    }
}
