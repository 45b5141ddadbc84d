//! What the calls of one etcd log share: the members, and what has been learnt of the store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use oarlock_meta::Revision;
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::{Code, Status};

use super::client::{Failure, Members};
use super::heads::{Head, Heads};
use super::layout::Layout;
use super::messages::{RangeRequest, RangeResponse, ResponseHeader};
use super::txn::{number, revision};
use crate::{Error, Health, Key};

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) layout: Layout,
    /// How far the tail must come: what barriers found to exist.
    pub(crate) wanted: watch::Sender<Revision>,
    pub(crate) full: AtomicBool,
    pub(crate) stored_bytes: AtomicU64,
    cluster: AtomicU64,
    /// The latest revision that is known to exist.
    seen: AtomicU64,
    floor: AtomicU64,
    /// Values met so far, and their bytes: what a version costs on average.
    values: AtomicU64,
    value_bytes: AtomicU64,
    heads: Mutex<Heads>,
}

impl Shared {
    pub(crate) fn new(members: Members, layout: Layout, cluster: u64) -> Self {
        Self {
            members,
            layout,
            wanted: watch::Sender::new(Revision::ZERO),
            full: AtomicBool::new(false),
            stored_bytes: AtomicU64::new(0),
            cluster: AtomicU64::new(cluster),
            seen: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            values: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
            heads: Mutex::default(),
        }
    }

    /// Reads a range of the store.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Future`], [`Error::Unavailable`].
    pub(crate) async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Error> {
        let asked = revision(range.revision);
        match self.members.read("/etcdserverpb.KV/Range", range).await {
            Ok(answer) => {
                let answer: RangeResponse = answer;
                let header = answer.header.clone().unwrap_or_default();
                self.check_cluster(&header)?;
                self.see(revision(header.revision));
                Ok(answer)
            }
            Err(Failure::Refused(status)) => Err(self.refused(&status, asked)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Where a key stood just before `at`; `None` when it did not exist.
    ///
    /// # Errors
    /// As [`Shared::range`].
    pub(crate) async fn head(&self, key: &Key, at: Revision) -> Result<Option<Head>, Error> {
        let key = self.layout.encode(key);
        let range = RangeRequest { key, revision: number(at) - 1, keys_only: true, ..RangeRequest::default() };
        let found = self.range(range).await?;
        Ok(found.kvs.first().map(|kv| Head { revision: revision(kv.mod_revision), version: kv.version }))
    }

    /// What a refusal means.
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

    /// Every answer must come from the cluster whose history the View holds.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: everything must be read anew.
    pub(crate) fn check_cluster(&self, header: &ResponseHeader) -> Result<(), Error> {
        let known = self.cluster.load(Ordering::Acquire);
        if known == header.cluster_id || header.cluster_id == 0 {
            return Ok(());
        }
        Err(Error::Corrupt(format!("etcd's cluster is {:x}, it was {known:x}", header.cluster_id)))
    }

    /// Begins with another history: nothing learnt of the one before holds.
    pub(crate) fn begin(&self, cluster: u64) {
        if self.cluster.swap(cluster, Ordering::AcqRel) != cluster {
            for number in [&self.seen, &self.floor] {
                number.store(0, Ordering::Release);
            }
            self.wanted.send_replace(Revision::ZERO);
            *self.heads.lock() = Heads::default();
        }
    }

    /// A revision exists.
    pub(crate) fn see(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// The tail is to come this far.
    pub(crate) fn want(&self, revision: Revision) {
        self.wanted.send_if_modified(|wanted| {
            let rises = revision > *wanted;
            *wanted = revision.max(*wanted);
            rises
        });
    }

    /// The latest revision known to exist.
    pub(crate) fn seen(&self) -> Revision {
        Revision(self.seen.load(Ordering::Acquire))
    }

    /// The newest compaction known.
    pub(crate) fn floor(&self) -> Revision {
        Revision(self.floor.load(Ordering::Acquire))
    }

    /// Learns of a compaction; returns the newest.
    pub(crate) fn raise_floor(&self, floor: Revision) -> Revision {
        self.floor.fetch_max(floor.get(), Ordering::AcqRel);
        self.floor()
    }

    /// Counts a value that was written.
    pub(crate) fn met(&self, value: Option<&Bytes>) {
        self.values.fetch_add(1, Ordering::Relaxed);
        self.value_bytes.fetch_add(value.map_or(0, Bytes::len) as u64, Ordering::Relaxed);
    }

    /// Keeps what a tail learnt, for the next one that starts where it ended.
    pub(crate) fn keep_heads(&self, heads: Heads) {
        *self.heads.lock() = heads;
    }

    /// The heads as of `at`, if the last tail ended there.
    pub(crate) fn take_heads(&self, at: Revision) -> Heads {
        let mut kept = self.heads.lock();
        if kept.at == at { std::mem::take(&mut *kept) } else { Heads::new(at) }
    }

    /// How the store feels, as far as its answers told.
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
