//! The base of the log's revisions in etcd: how it is read, confirmed and raised (see [`History`]).

use bytes::Bytes;
use oarlock_contracts::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use oarlock_contracts::etcd::request_op::Request;
use oarlock_contracts::etcd::{Compare, Kv, PutRequest, RangeRequest, RequestOp, TxnRequest};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::client::Failure;
use super::history::History;
use super::shared::Shared;
use crate::Error;

/// Gap between the last revision seen and the first one after etcd went back to an older state: other servers may have handed out more revisions.
const REVISION_GAP: u64 = 1_000_000_000;
/// Attempts to raise the base while other servers raise it too.
const MAX_RAISE_ATTEMPTS: usize = 5;

/// Reads the current history and revision from etcd.
///
/// # Errors
/// [`Error::Unavailable`]; [`Error::Corrupt`] when the stored base is not a number.
async fn read_current(shared: &Shared) -> Result<(History, Revision), Error> {
    let (history, number) = ask(shared).await?;
    Ok((history, history.revision(number)))
}

async fn ask(shared: &Shared) -> Result<(History, i64), Error> {
    let range = RangeRequest { key: shared.layout.base(), ..RangeRequest::default() };
    History::of(&shared.members.read(Kv::RANGE, range).await?)
}

/// Checks that etcd still holds the known history. After a restore of an older state a watch would wait for revisions that may never come or that carry other writes.
///
/// # Errors
/// As [`Shared::range`].
pub(crate) async fn confirm(shared: &Shared) -> Result<History, Error> {
    shared.check_known()?;
    let (history, before) = (shared.history(), shared.seen());
    let (found, now) = read_current(shared).await?;
    if found == history && now >= before {
        shared.note_revision(now);
        return Ok(history);
    }
    shared.mark_lost(&history);
    Err(Error::Corrupt(format!("etcd holds another history: it is at {now}, it was at {before}")))
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
