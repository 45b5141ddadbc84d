//! Which history etcd holds, and what its revisions are to those who read them.
//!
//! A revision is etcd's plus a base, which is kept in a key of our own. It is written when a snapshot is restored, and when etcd itself was
//! restored from an older state while a server ran: so revisions only ever rise. Without that key it is 0, and revisions are etcd's, as upstream's
//! API servers have them. What was before the base was written is another history, and counts as compacted.

use bytes::Bytes;
use oarlock_contracts::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use oarlock_contracts::etcd::request_op::Request;
use oarlock_contracts::etcd::{Compare, Kv, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::client::Failure;
use super::shared::Shared;
use crate::Error;

/// How far above what was handed out revisions go on after an older state was met: other servers may have handed out more.
const MARGIN: u64 = 1_000_000_000;
/// Servers that may be faster at raising the base before this one gives up.
const TRIES: usize = 5;

/// A history. Those with different bases, or in different clusters, have nothing in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) cluster: u64,
    base: u64,
    /// etcd's revision of the base; 0 when there is none.
    since: i64,
}

impl History {
    /// The history that answered, and etcd's revision.
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

    /// What etcd's revision is to a reader. etcd never sends a negative one.
    pub(crate) fn revision(&self, number: i64) -> Revision {
        Revision(self.base.saturating_add(u64::try_from(number).unwrap_or(0)))
    }

    /// A reader's revision as etcd's, 0 for none. One of an earlier history is none that etcd will ever reach.
    pub(crate) fn number(&self, revision: Revision) -> i64 {
        if revision.is_zero() {
            return 0;
        }
        let number = revision.get().checked_sub(self.base).filter(|number| *number > 0);
        number.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX)
    }

    /// Where it begins; zero when that is etcd's own beginning.
    pub(crate) fn floor(&self) -> Revision {
        if self.since == 0 { Revision::ZERO } else { self.revision(self.since) }
    }
}

/// Asks etcd which history it holds, and how far it is.
///
/// # Errors
/// [`Error::Unavailable`]; [`Error::Corrupt`] when the base is no number.
pub(crate) async fn look(shared: &Shared) -> Result<(History, Revision), Error> {
    let (history, number) = ask(shared).await?;
    Ok((history, history.revision(number)))
}

async fn ask(shared: &Shared) -> Result<(History, i64), Error> {
    let range = RangeRequest { key: shared.layout.base(), ..RangeRequest::default() };
    History::of(&shared.members.read(Kv::RANGE, range).await?)
}

/// Finds out which history there is, and begins with it; the present is above everything that was seen before.
///
/// # Errors
/// As [`raise`].
pub(crate) async fn identify(shared: &Shared) -> Result<Revision, Error> {
    let before = shared.seen();
    let (history, now) = look(shared).await?;
    if now >= before || seeded_bug!("older_state_goes_on") {
        shared.begin(history);
        shared.see(now);
        return Ok(now);
    }
    tracing::error!(%now, %before, "etcd holds an older state than it did: revisions go on far above");
    raise(shared, Revision(before.get().saturating_add(MARGIN))).await
}

/// Lets every later revision be above `to`, and begins with the history that follows; returns its present.
///
/// # Errors
/// [`Error::Unavailable`], also when others raise it again and again.
pub(crate) async fn raise(shared: &Shared, to: Revision) -> Result<Revision, Error> {
    for _ in 0..TRIES {
        let (history, number) = ask(shared).await?;
        let now = history.revision(number);
        if now >= to {
            shared.begin(history);
            shared.see(now);
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

/// Writes the base, if it still is the one known.
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
