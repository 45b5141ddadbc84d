//! Builds small histories by hand. The record of revision R has the body `bR` and the tag `tR`.

use oarlock_check::history::{
    Asked, Call, End, Event, EventType, Floor, History, Labels, Line, Op, Open, Outcome, Page, Reason, Record, Truth,
};
use oarlock_check::{Rule, check};

/// The times at which a call began and ended.
pub(crate) type Span = (u64, u64);

pub(crate) fn body(revision: u64) -> Option<String> {
    Some(format!("b{revision}"))
}

pub(crate) fn tag(revision: u64) -> Option<String> {
    Some(format!("t{revision}"))
}

pub(crate) fn truth(through: u64) -> Line {
    Line::Truth(Truth { after: 0, through, own: Vec::new() })
}

/// Makes the line that says that only the clients write below `m/`.
pub(crate) fn own_truth(through: u64) -> Line {
    Line::Truth(Truth { after: 0, through, own: vec!["m/".to_owned()] })
}

pub(crate) fn put(revision: u64, key: &str, prev: impl Into<Option<u64>>) -> Line {
    labelled(revision, key, prev, &[])
}

pub(crate) fn labelled(revision: u64, key: &str, prev: impl Into<Option<u64>>, labels: &[(&str, &str)]) -> Line {
    let (body, tag, labels) = (body(revision), tag(revision), labels_of(labels));
    Line::Record(Record { revision, key: key.to_owned(), prev: prev.into(), body, tag, labels })
}

pub(crate) fn gone(revision: u64, key: &str, prev: u64) -> Line {
    Line::Record(Record { revision, key: key.to_owned(), prev: Some(prev), ..Record::default() })
}

pub(crate) fn labels_of(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn call(op: Op, key: &str, span: Span) -> Call {
    Call {
        client: "c".to_owned(),
        replica: "a".to_owned(),
        op,
        key: key.to_owned(),
        invoke: span.0,
        returned: Some(span.1),
        outcome: Outcome::Ok,
        ..Call::default()
    }
}

pub(crate) fn create(revision: u64, key: &str, span: Span) -> Call {
    Call { revision: Some(revision), body: body(revision), tag: tag(revision), ..call(Op::Create, key, span) }
}

pub(crate) fn update(revision: u64, key: &str, expect: u64, span: Span) -> Call {
    Call { op: Op::Update, expect: Some(expect), ..create(revision, key, span) }
}

pub(crate) fn delete(key: &str, expect: u64, span: Span) -> Call {
    Call { expect: Some(expect), ..call(Op::Delete, key, span) }
}

pub(crate) fn get(revision: u64, key: &str, span: Span) -> Call {
    Call { revision: Some(revision), body: body(revision), ..call(Op::Get, key, span) }
}

pub(crate) fn refused(call: Call, reason: Reason) -> Call {
    Call { outcome: Outcome::Rejected, reason: Some(reason), revision: None, body: None, ..call }
}

pub(crate) fn unknown(call: Call) -> Call {
    Call { outcome: Outcome::Unknown, returned: None, revision: None, body: None, ..call }
}

pub(crate) fn asked(call: Call, asked: Asked) -> Call {
    Call { asked, ..call }
}

/// Makes a page of a list with the objects written at these revisions.
pub(crate) fn page(id: &str, number: u64, more: bool, revision: u64, items: &[(&str, u64)], span: Span) -> Call {
    let items = items.iter().map(|(key, at)| ((*key).to_owned(), *at, format!("b{at}"))).collect();
    let list = Some(Page { id: id.to_owned(), page: number, more, selector: Labels::new(), items });
    Call { revision: Some(revision), list, ..call(Op::List, "m/", span) }
}

pub(crate) fn list(revision: u64, items: &[(&str, u64)], span: Span) -> Call {
    page("only", 0, false, revision, items, span)
}

pub(crate) fn open(from: u64, at: u64) -> Line {
    let (watch, key) = ("w".to_owned(), "m/".to_owned());
    Line::Watch(Open { watch, client: "c".to_owned(), replica: "a".to_owned(), key, from, at, selector: Labels::new() })
}

pub(crate) fn open_for(selector: &[(&str, &str)], from: u64, at: u64) -> Line {
    let Line::Watch(open) = open(from, at) else { unreachable!() };
    Line::Watch(Open { selector: labels_of(selector), ..open })
}

/// Makes an event about a revision with the body of revision `of`.
pub(crate) fn told(told: EventType, key: &str, revision: u64, of: u64, at: u64) -> Line {
    let (watch, key) = ("w".to_owned(), key.to_owned());
    Line::Event(Event { watch, at, told, key, revision: Some(revision), body: body(of) })
}

pub(crate) fn bookmark(revision: u64, at: u64) -> Line {
    Line::Event(Event {
        watch: "w".to_owned(),
        at,
        told: EventType::Bookmark,
        revision: Some(revision),
        ..Event::default()
    })
}

pub(crate) fn expired(at: u64) -> Line {
    Line::Event(Event { watch: "w".to_owned(), at, told: EventType::Gone, ..Event::default() })
}

pub(crate) fn end(through: u64, at: u64) -> Line {
    Line::End(End { watch: "w".to_owned(), at, through: Some(through) })
}

pub(crate) fn floor(revision: u64, at: u64) -> Line {
    Line::Floor(Floor { revision, at })
}

pub(crate) fn lines(log: &[Line], calls: impl IntoIterator<Item = Call>) -> Vec<Line> {
    log.iter().cloned().chain(calls.into_iter().map(Line::Call)).collect()
}

/// Asserts that a history breaks exactly these rules.
#[track_caller]
pub(crate) fn breaks<const N: usize>(lines: &[Line], rules: [Rule; N]) {
    let history = History::from_lines(lines).unwrap_or_else(|error| panic!("{error}"));
    let report = check(&history);
    let broken: Vec<_> = Rule::ALL.into_iter().filter(|rule| report.broken(*rule)).collect();
    assert_eq!(broken, rules, "\n{}", report.show(&history, 10));
    assert!(report.violations.iter().all(|violation| !violation.evidence.is_empty()), "{:?}", report.violations);
}
