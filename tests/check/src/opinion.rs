//! The second check: judges small histories of one key with the general checker.

use std::collections::BTreeMap;

use crate::history::{Asked, Call, History, Op, Outcome, Place, Reason};
use crate::linearizable::{MAX_OPERATIONS, Timed, Verdict, search};
use crate::log::Log;
use crate::report::{Report, Rule};
use crate::writes::Written;

/// The most configurations visited per key.
const BUDGET: usize = 200_000;

/// Checks each key that only the recorded clients wrote with the general checker.
pub(crate) fn check(history: &History, log: &Log<'_>, written: &Written, report: &mut Report) {
    let mut keys: BTreeMap<&str, Vec<(Timed<Observation>, Place)>> = BTreeMap::new();
    let own = |key: &str| history.truth.own.iter().any(|prefix| key.starts_with(prefix.as_str()));
    for (index, call) in history.calls.iter().enumerate().filter(|(_, call)| own(&call.is.key)) {
        let made = written.made(index).and_then(|at| log.get(at)).map(|record| record.is.revision);
        let Some(op) = seen(&call.is, made) else { continue };
        let returned = call.is.returned.filter(|_| call.is.outcome != Outcome::Unknown);
        let timed = Timed { invoke: call.is.invoke, returned, op };
        keys.entry(&call.is.key).or_default().push((timed, call.place));
    }
    for (key, ops) in keys.into_iter().filter(|(_, ops)| ops.len() <= MAX_OPERATIONS) {
        let start = log.state(key, log.after()).map(|(_, record)| record.is.revision);
        let (ops, places): (Vec<_>, Vec<_>) = ops.into_iter().unzip();
        match search(start, &ops, apply, BUDGET) {
            Verdict::GaveUp => continue,
            Verdict::Linear => {}
            Verdict::NotLinear => {
                let what = format!("no order explains what was seen of {key}");
                report.broke(Rule::Second, what, places.into_iter().map(Some));
            }
        }
        report.count(Rule::Second);
    }
}

/// The observation of a call about its key, whose state is the revision of its last write.
#[derive(Clone, Copy)]
enum Observation {
    Written { from: From, to: Option<u64> },
    Read(Option<u64>),
    Present,
    Another(u64),
}

/// The state that a write replaced.
#[derive(Clone, Copy)]
enum From {
    Nothing,
    Something,
    Exactly(u64),
}

/// Returns the observation of a call; `None` for a call that shows nothing about its key.
fn seen(call: &Call, made: Option<u64>) -> Option<Observation> {
    let from = match (call.op, call.expect) {
        (Op::Create, _) => From::Nothing,
        (_, Some(expected)) => From::Exactly(expected),
        (_, None) => From::Something,
    };
    match (call.outcome, call.op, call.reason) {
        (_, Op::List, _) | (Outcome::Rejected, _, None | Some(Reason::Other | Reason::Expired)) => None,
        (Outcome::Rejected, _, Some(Reason::Exists)) => Some(Observation::Present),
        (Outcome::Rejected, _, Some(Reason::Conflict)) => call.expect.map(Observation::Another),
        (Outcome::Rejected, _, Some(Reason::Absent)) if call.asked == Asked::Recent => Some(Observation::Read(None)),
        (Outcome::Ok, Op::Get, _) if call.asked == Asked::Recent => Some(Observation::Read(call.revision)),
        (_, Op::Get, _) | (Outcome::Rejected, ..) => None,
        (Outcome::Ok, Op::Delete, _) => Some(Observation::Written { from, to: None }),
        (Outcome::Ok, ..) => Some(Observation::Written { from, to: call.revision }),
        // A write that is not in the log changed nothing that a client could observe.
        (Outcome::Unknown, Op::Delete, _) => made.map(|_| Observation::Written { from, to: None }),
        (Outcome::Unknown, ..) => made.map(|revision| Observation::Written { from, to: Some(revision) }),
    }
}

/// Returns the state after the observation; `None` if the observation contradicts the state.
fn apply(state: &Option<u64>, seen: &Observation) -> Option<Option<u64>> {
    let right = match *seen {
        Observation::Read(there) => *state == there,
        Observation::Present => state.is_some(),
        Observation::Another(expected) => *state != Some(expected),
        Observation::Written { from: From::Nothing, .. } => state.is_none(),
        Observation::Written { from: From::Something, .. } => state.is_some(),
        Observation::Written { from: From::Exactly(revision), .. } => *state == Some(revision),
    };
    let next = if let Observation::Written { to, .. } = *seen { to } else { *state };
    right.then_some(next)
}
