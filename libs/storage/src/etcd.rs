//! The etcd log: a log in an etcd cluster, durable in a quorum and shared by any number of processes.
//!
//! A write is one etcd transaction. Writes of other processes arrive through one watch over all keys. All writes of an atomic group get the same revision, so a group never
//! holds two objects of one resource. Key layout and compaction record are upstream's. Revisions equal etcd's until a snapshot was restored (see `history`).

mod base;
mod client;
mod dial;
mod heads;
mod history;
mod layout;
mod load;
mod metrics;
mod options;
mod shared;
mod tail;
mod trace;
mod txn;
mod version;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_contracts::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use oarlock_contracts::etcd::request_op::Request;
use oarlock_contracts::etcd::response_op::Response;
use oarlock_contracts::etcd::{
    CompactionRequest, Compare, KeyValue, Kv, Maintenance, PutRequest, RangeRequest, RequestOp, StatusRequest,
    TxnRequest,
};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use tokio::time::Instant;

use self::client::{Failure, Members};
pub use self::dial::{Connection, Dial};
use self::history::History;
use self::layout::{COMPACT_REV_KEY, Layout};
pub use self::options::{Options, PREFIX};
use self::shared::Shared;
use self::tail::EtcdTail;
use crate::heads::check_shape;
use crate::{Append, Error, GroupOutcome, Health, Key, LoadPart, Loaded, Log, Outcome, Sharing, Tail, Value};

/// A [`Log`] in an etcd cluster. Clones share the log.
#[derive(Clone, Debug)]
pub struct EtcdLog {
    shared: Arc<Shared>,
}

impl EtcdLog {
    /// Connects to the cluster and checks that its members are usable.
    ///
    /// # Errors
    /// [`Error::Config`] for contradictory options, for members of different clusters and for a member that is too old; [`Error::Unavailable`] when no member answers.
    pub async fn open(options: &Options) -> Result<Self, Error> {
        let members = Members::new(options)?;
        let mut cluster = None;
        let mut silent = None;
        let mut stored = 0;
        for endpoint in members.endpoints() {
            let status = match members.read_at(endpoint, Maintenance::STATUS, StatusRequest {}).await {
                Ok(status) => status,
                Err(failure) => {
                    tracing::warn!(endpoint, ?failure, "this etcd server does not answer");
                    silent = Some(failure);
                    continue;
                }
            };
            version::check(&status.version).map_err(|text| Error::Config(format!("{endpoint}: {text}")))?;
            let id = status.header.map_or(0, |header| header.cluster_id);
            if *cluster.get_or_insert(id) != id {
                return Err(Error::Config(format!("{endpoint} is a member of another cluster than those before it")));
            }
            stored = status.db_size;
        }
        if cluster.is_none() {
            return Err(silent.map_or_else(|| Error::Unavailable("no etcd server answers".into()), Error::from));
        }
        let layout = Layout::new(&options.prefix, &options.resources);
        let log = Self { shared: Arc::new(Shared::new(members, layout)) };
        log.shared.stored_bytes.store(u64::try_from(stored).unwrap_or(0), Ordering::Relaxed);
        base::identify(&log.shared).await?;
        log.shared.raise_floor(tail::compacted(&log.shared).await?);
        log.barrier().await?;
        Ok(log)
    }

    async fn group(&self, group: &[Append]) -> Result<GroupOutcome, Error> {
        if !seeded_bug!("batch_of_one_transaction") {
            check_shape(group)?;
        }
        let shared = &self.shared;
        if let Err(error) = shared.check_known() {
            return Err(Error::Unavailable(error.to_string()));
        }
        let (history, before) = (shared.history(), shared.seen());
        let began = Instant::now();
        let answer = shared.members.write(Kv::TXN, txn::request(&shared.layout, &history, group)).await;
        metrics::transaction(group, answer.is_ok(), began.elapsed());
        match answer {
            Ok(answer) => {
                let header = answer.header.unwrap_or_default();
                if shared.check(&history, &header, before).is_err() {
                    // etcd compared the write with another history than the caller's.
                    return Ok(GroupOutcome::Unknown);
                }
                shared.note_revision(history.revision(header.revision));
                if answer.succeeded {
                    group.iter().for_each(|append| shared.count_value(append.value.as_ref()));
                    if group.iter().any(|append| append.value.is_some()) {
                        shared.full.store(false, Ordering::Release);
                    }
                }
                txn::outcome(&history, group, &answer)
                    .ok_or_else(|| Error::Unavailable("etcd refused a write without a reason".into()))
            }
            Err(Failure::Unsent(text)) => Err(Error::Unavailable(text)),
            Err(Failure::Unanswered(text)) => {
                tracing::warn!(error = text, "the outcome of a write is unknown");
                Ok(GroupOutcome::Unknown)
            }
            Err(Failure::Refused(status)) => Err(shared.refused(&status, Revision::ZERO)),
        }
    }

    /// Returns the last compaction record: its etcd version and the revision it names.
    async fn last_compaction(&self) -> Result<(i64, Revision), Error> {
        let range = RangeRequest { key: Bytes::from_static(COMPACT_REV_KEY.as_bytes()), ..RangeRequest::default() };
        let found = self.shared.range(range).await?;
        Ok(found.kvs.first().map_or((0, Revision::ZERO), |kv| recorded(&found.history, kv)))
    }

    /// Records the compaction at `at` before it is made, as upstream's API servers do. A server that loses the compare leaves the compaction to the winner.
    async fn claim_compaction(&self, version: i64, at: Revision) -> Result<bool, Error> {
        let history = self.shared.history();
        let key = Bytes::from_static(COMPACT_REV_KEY.as_bytes());
        let compare = Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Version as i32,
            key: key.clone(),
            target_union: Some(TargetUnion::Version(version)),
        };
        let put =
            Request::RequestPut(PutRequest { key: key.clone(), value: Bytes::from(history.number(at).to_string()) });
        let look = Request::RequestRange(RangeRequest { key, ..RangeRequest::default() });
        let txn = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp { request: Some(put) }],
            failure: vec![RequestOp { request: Some(look) }],
        };
        match self.shared.members.write(Kv::TXN, txn).await {
            Ok(answer) if answer.succeeded => Ok(true),
            Ok(answer) => {
                let first = answer.responses.first().and_then(|first| first.response.as_ref());
                if let Some(Response::ResponseRange(range)) = first {
                    self.shared.raise_floor(range.kvs.first().map_or(Revision::ZERO, |kv| recorded(&history, kv).1));
                }
                Ok(false)
            }
            Err(Failure::Refused(status)) => match self.shared.refused(&status, at) {
                // A full store cannot write the record but needs the compaction most.
                Error::ReadOnly => Ok(true),
                error => Err(error),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    async fn note_size(&self) {
        match self.shared.members.read(Maintenance::STATUS, StatusRequest {}).await {
            Ok(status) => self.shared.stored_bytes.store(u64::try_from(status.db_size).unwrap_or(0), Ordering::Relaxed),
            Err(failure) => tracing::debug!(?failure, "etcd does not report its size; the last known size is kept"),
        }
    }
}

fn recorded(history: &History, kv: &KeyValue) -> (i64, Revision) {
    let at = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
    (kv.version, at.map_or(Revision::ZERO, |number| history.revision(number)))
}

#[async_trait]
impl Log for EtcdLog {
    async fn commit(&self, groups: Vec<Vec<Append>>) -> Vec<Result<GroupOutcome, Error>> {
        let mut answers = Vec::with_capacity(groups.len());
        let mut rest = groups.as_slice();
        while !rest.is_empty() {
            // Groups on different keys cannot affect one another, so they are sent concurrently.
            let mut touched = HashSet::new();
            let together = rest
                .iter()
                .take_while(|group| {
                    let keys = group.iter().flat_map(|append| {
                        std::iter::once(&append.key).chain(append.fence.as_ref().map(|fence| &fence.key))
                    });
                    let keys: HashSet<&Key> = keys.collect();
                    let free = keys.is_disjoint(&touched);
                    touched.extend(keys);
                    free
                })
                .count();
            let (now, later) = rest.split_at(together);
            if seeded_bug!("batch_of_one_transaction")
                && let Ok(GroupOutcome::Committed(revisions)) = self.group(&now.concat()).await
            {
                let mut revisions = revisions.into_iter();
                answers.extend(
                    now.iter().map(|own| Ok(GroupOutcome::Committed(revisions.by_ref().take(own.len()).collect()))),
                );
                rest = later;
                continue;
            }
            answers.extend(futures::future::join_all(now.iter().map(|group| self.group(group))).await);
            rest = later;
        }
        answers
    }

    async fn tail(&self, after: Revision) -> Result<Box<dyn Tail>, Error> {
        let floor = self.shared.floor();
        if after < floor {
            return Err(Error::Compacted { floor });
        }
        let heads = self.shared.take_heads(after);
        Ok(Box::new(EtcdTail::open(Arc::clone(&self.shared), heads).await?))
    }

    async fn load(&self, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
        load::load(&self.shared, each).await
    }

    async fn body(&self, key: &Key, at: Revision) -> Result<Option<Value>, Error> {
        let read = |revision: Revision| {
            let (key, revision) = (self.shared.layout.encode(key), self.shared.history().number(revision));
            self.shared.range(RangeRequest { key, revision, ..RangeRequest::default() })
        };
        let found = match read(at).await {
            // A version that no later write replaced is still readable at the floor.
            Err(Error::Compacted { .. }) => read(self.shared.raise_floor(tail::compacted(&self.shared).await?)).await?,
            Err(Error::Future { .. }) => return Ok(None),
            found => found?,
        };
        let kv = found.kvs.into_iter().next().filter(|kv| found.history.revision(kv.mod_revision) == at);
        Ok(kv.map(|kv| kv.value))
    }

    async fn barrier(&self) -> Result<Revision, Error> {
        let range = RangeRequest { key: self.shared.layout.range().0, count_only: true, ..RangeRequest::default() };
        let now = self.shared.range(range).await?.at;
        self.shared.request_progress(now);
        Ok(now)
    }

    async fn trim(&self, at: Revision) -> Result<(), Error> {
        let current = if at > self.shared.seen() { self.barrier().await? } else { self.shared.seen() };
        if at > current {
            return Err(Error::Future { asked: at, current });
        }
        let (version, recorded) = self.last_compaction().await?;
        if self.shared.raise_floor(recorded) >= at || !self.claim_compaction(version, at).await? {
            return Ok(());
        }
        let compaction = CompactionRequest { revision: self.shared.history().number(at) };
        match self.shared.members.write(Kv::COMPACT, compaction).await {
            Ok(_) => {}
            Err(Failure::Refused(status)) => match self.shared.refused(&status, at) {
                Error::Compacted { .. } => {}
                error => return Err(error),
            },
            Err(failure) => return Err(failure.into()),
        }
        self.shared.raise_floor(at);
        self.note_size().await;
        Ok(())
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        let (_, recorded) = self.last_compaction().await?;
        Ok(self.shared.raise_floor(recorded))
    }

    async fn raise(&self, to: Revision) -> Result<(), Error> {
        let now = base::raise(&self.shared, to).await?;
        self.trim(now).await
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    async fn append(&self, append: Append) -> Result<Outcome, Error> {
        self.group(&[append]).await.map(|group| group.single())
    }
}
