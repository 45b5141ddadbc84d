//! Histories of etcd, and the translation between etcd's revisions and the log's.
//!
//! A revision of the log is etcd's revision plus a base, which is stored in a key of our own. The base is written when a snapshot is restored, and when etcd itself was
//! restored from an older state while a server ran; so revisions only rise. Without that key the base is 0 and revisions equal etcd's, as with upstream's API servers. Writes
//! from before the base was stored belong to another history and count as compacted.

use bytes::Bytes;
use oarlock_contracts::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use oarlock_contracts::etcd::request_op::Request;
use oarlock_contracts::etcd::{Compare, Kv, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::client::Failure;
use super::shared::Shared;
use crate::Error;

/// Gap between the last revision seen and the first one after etcd went back to an older state: other servers may have handed out more revisions.
const REVISION_GAP: u64 = 1_000_000_000;
/// Attempts to raise the base while other servers raise it too.
const MAX_RAISE_ATTEMPTS: usize = 5;

/// One history of an etcd cluster. Revisions of histories with different bases or clusters cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) cluster: u64,
    base: u64,
    /// etcd's revision at which the base was written; 0 without a base.
    since: i64,
}

impl History {
    /// Reads the history and etcd's revision from an answer.
    fn of(answer: &RangeResponse) -> Result<(Self, i64), Error> {
        let header = answer.header.unwrap_or_default();
        let mut history = Self { cluster: header.cluster_id, ..Self::default() };
        if let Some(kv) = answer.kvs.first() {
            let base = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
            history.base = base
                .ok_or_else(|| Error::Corrupt(format!("{} in etcd is no number", String::from_utf8_lossy(&kv.key))))?;
            history.since = kv.mod_revision;
        }
        Ok((history, header.revision))
    }

    /// Converts etcd's revision to the log's. etcd never sends a negative revision.
    pub(crate) fn revision(&self, number: i64) -> Revision {
        Revision(self.base.saturating_add(u64::try_from(number).unwrap_or(0)))
    }

    /// Converts the log's revision to etcd's; 0 stands for none. A revision of an earlier history maps to a number that etcd never reaches.
    pub(crate) fn number(&self, revision: Revision) -> i64 {
        if revision.is_zero() {
            return 0;
        }
        let number = revision.get().checked_sub(self.base).filter(|number| *number > 0);
        number.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX)
    }

    /// First revision of the history; zero when the history begins with etcd itself.
    pub(crate) fn floor(&self) -> Revision {
        if self.since == 0 { Revision::ZERO } else { self.revision(self.since) }
    }
}

/// Reads the current history and revision from etcd.
///
/// # Errors
/// [`Error::Unavailable`]; [`Error::Corrupt`] when the stored base is not a number.
pub(crate) async fn read_current(shared: &Shared) -> Result<(History, Revision), Error> {
    let (history, number) = ask(shared).await?;
    Ok((history, history.revision(number)))
}

async fn ask(shared: &Shared) -> Result<(History, i64), Error> {
    let range = RangeRequest { key: shared.layout.base(), ..RangeRequest::default() };
    History::of(&shared.members.read(Kv::RANGE, range).await?)
}

/// Detects the current history and adopts it; returns a current revision above all revisions seen before.
///
/// # Errors
/// As [`raise`].
pub(crate) async fn identify(shared: &Shared) -> Result<Revision, Error> {
    let before = shared.seen();
    let (history, now) = read_current(shared).await?;
    if now >= before || seeded_bug!("older_state_goes_on") {
        shared.adopt_history(history);
        shared.note_revision(now);
        return Ok(now);
    }
    tracing::error!(%now, %before, "etcd holds an older state than it did: revisions continue far above");
    raise(shared, Revision(before.get().saturating_add(REVISION_GAP))).await
}

/// Makes every later revision greater than `to`, adopts the new history and returns its current revision.
///
/// # Errors
/// [`Error::Unavailable`], also when other servers raise the base repeatedly.
pub(crate) async fn raise(shared: &Shared, to: Revision) -> Result<Revision, Error> {
    for _ in 0..MAX_RAISE_ATTEMPTS {
        let (history, number) = ask(shared).await?;
        let now = history.revision(number);
        if now >= to {
            shared.adopt_history(history);
            shared.note_revision(now);
            return Ok(now);
        }
        let base = to.get().saturating_sub(u64::try_from(number).unwrap_or(0));
        match shared.members.write(Kv::TXN, rebase(shared.layout.base(), &history, base)).await {
            Ok(_) => {}
            Err(Failure::Refused(status)) => return Err(shared.refused(&status, to)),
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(Error::Unavailable("the base of etcd's revisions changes again and again".into()))
}

/// Builds the transaction that writes the base if the known base is unchanged.
fn rebase(key: Bytes, known: &History, base: u64) -> TxnRequest {
    let compare = Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key: key.clone(),
        target_union: Some(TargetUnion::ModRevision(known.since)),
    };
    let put = Request::RequestPut(PutRequest { key, value: Bytes::from(base.to_string()) });
    TxnRequest { compare: vec![compare], success: vec![RequestOp { request: Some(put) }], failure: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_go_there_and_back_and_those_of_before_lead_nowhere() {
        let plain = History::default();
        assert_eq!((plain.revision(7), plain.number(Revision(7)), plain.floor()), (Revision(7), 7, Revision::ZERO));
        let raised = History { base: 1000, since: 5, ..plain };
        assert_eq!((raised.revision(7), raised.number(Revision(1007))), (Revision(1007), 7));
        assert_eq!(raised.floor(), Revision(1005));
        assert_eq!(raised.number(Revision::ZERO), 0);
        for before in [1, 7, 1000] {
            assert_eq!(raised.number(Revision(before)), i64::MAX, "{before}");
        }
    }
}
