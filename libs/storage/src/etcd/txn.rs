//! Translation of writes into etcd transactions, and of answers into outcomes. No I/O.

use bytes::Bytes;
use oarlock_contracts::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use oarlock_contracts::etcd::request_op::Request;
use oarlock_contracts::etcd::response_op::Response;
use oarlock_contracts::etcd::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use oarlock_meta::Revision;

use super::history::History;
use super::layout::Layout;
use crate::heads::refusal;
use crate::{Append, Expect, GroupOutcome};

/// Builds the transaction of a group: all compares, and reads that show which compare failed.
pub(crate) fn request(layout: &Layout, history: &History, group: &[Append]) -> TxnRequest {
    let mut txn = TxnRequest::default();
    for append in group {
        let key = layout.encode(&append.key);
        match append.expect {
            Expect::Absent => txn.compare.push(modified(key.clone(), CompareResult::Equal, 0)),
            Expect::At(revision) => {
                txn.compare.push(modified(key.clone(), CompareResult::Equal, history.number(revision)));
            }
            Expect::Any if append.value.is_none() => {
                txn.compare.push(modified(key.clone(), CompareResult::Greater, 0));
            }
            Expect::Any => {}
        }
        txn.failure.push(read_key(key.clone()));
        if let Some(fence) = &append.fence {
            let claim = layout.encode(&fence.key);
            txn.compare.push(modified(claim.clone(), CompareResult::Equal, history.number(fence.at)));
            txn.failure.push(read_key(claim));
        }
        txn.success.push(op(match &append.value {
            Some(value) => Request::RequestPut(PutRequest { key, value: value.clone() }),
            None => Request::RequestDeleteRange(DeleteRangeRequest { key }),
        }));
    }
    txn
}

/// Reads the outcome of a group from the transaction's answer; `None` when the answer contradicts itself.
pub(crate) fn outcome(history: &History, group: &[Append], answer: &TxnResponse) -> Option<GroupOutcome> {
    if answer.succeeded {
        let revision = history.revision(answer.header.as_ref()?.revision);
        return Some(GroupOutcome::Committed(vec![revision; group.len()]));
    }
    let at = |response| at(history, response);
    let mut found = answer.responses.iter();
    for (index, append) in group.iter().enumerate() {
        let current = at(found.next()?);
        let claim = match &append.fence {
            Some(_) => at(found.next()?),
            None => None,
        };
        if let Some((current, cause)) = refusal(append, current, claim) {
            return Some(GroupOutcome::Rejected { index, current, cause });
        }
    }
    None
}

fn modified(key: Bytes, result: CompareResult, number: i64) -> Compare {
    let target_union = Some(TargetUnion::ModRevision(number));
    Compare { result: result as i32, target: CompareTarget::Mod as i32, key, target_union }
}

fn read_key(key: Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key, keys_only: true, ..RangeRequest::default() }))
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn at(history: &History, response: &ResponseOp) -> Option<Revision> {
    let Some(Response::ResponseRange(range)) = &response.response else { return None };
    range.kvs.first().map(|kv| history.revision(kv.mod_revision))
}

#[cfg(test)]
mod tests {
    use oarlock_contracts::etcd::{KeyValue, RangeResponse, ResponseHeader};

    use super::*;
    use crate::{Cause, Fence, Key};

    fn seen(mod_revision: Option<i64>) -> ResponseOp {
        let kvs =
            mod_revision.map(|mod_revision| KeyValue { mod_revision, ..KeyValue::default() }).into_iter().collect();
        ResponseOp { response: Some(Response::ResponseRange(RangeResponse { kvs, ..RangeResponse::default() })) }
    }

    #[test]
    fn a_refusal_names_the_write_and_the_compare_that_failed() {
        let (pod, service, claim) =
            (Key::new("/registry/pods", "a/b"), Key::new("/registry/s", "a/b"), Key::new("/r", "c"));
        let group = [
            Append::create(pod, Bytes::from_static(b"1")),
            Append::delete(service, Revision(4)).fenced(Fence { key: claim, at: Revision(3) }),
        ];
        let txn = request(&Layout::new("", &[]), &History::default(), &group);
        assert_eq!((txn.compare.len(), txn.success.len(), txn.failure.len()), (3, 2, 3));
        let refused = |seen: [ResponseOp; 3]| {
            let answer = TxnResponse { responses: seen.into(), ..TxnResponse::default() };
            outcome(&History::default(), &group, &answer)
        };
        let wanted = |index, current: Option<u64>, cause| {
            Some(GroupOutcome::Rejected { index, current: current.map(Revision), cause })
        };
        assert_eq!(refused([seen(Some(9)), seen(Some(4)), seen(Some(3))]), wanted(0, Some(9), Cause::Head));
        assert_eq!(refused([seen(None), seen(Some(5)), seen(Some(3))]), wanted(1, Some(5), Cause::Head));
        assert_eq!(refused([seen(None), seen(Some(4)), seen(Some(8))]), wanted(1, Some(8), Cause::Fence));
        assert_eq!(refused([seen(None), seen(Some(4)), seen(Some(3))]), None, "nothing failed, yet it was refused");
        let done = TxnResponse {
            succeeded: true,
            header: Some(ResponseHeader { revision: 12, ..ResponseHeader::default() }),
            ..TxnResponse::default()
        };
        assert_eq!(outcome(&History::default(), &group, &done), Some(GroupOutcome::Committed(vec![Revision(12); 2])));
    }
}
