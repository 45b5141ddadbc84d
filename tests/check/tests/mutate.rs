//! Damages correct histories; each kind of damage lists the rules of which one must find it.
#![expect(clippy::ptr_arg, reason = "one signature for all kinds of damage; some add and take lines")]

use oarlock_check::Rule::{self, Log, Second, W1, W2, W3, W4, W5, W6, W7};
use oarlock_check::history::{Asked, Call, Event, EventType, Line, Op, Outcome, Page, Reason, Record};
use rand::RngExt as _;
use rand::rngs::StdRng;

pub(crate) struct Mutation {
    pub name: &'static str,
    /// Applies the damage at a random place; returns false when the history has no such place.
    pub apply: fn(&mut Vec<Line>, &mut StdRng) -> bool,
    /// The rules of which at least one must find the damage.
    pub caught_by: &'static [Rule],
}

pub(crate) const ALL: &[Mutation] = &[
    Mutation { name: "drop an event", apply: drop_event, caught_by: &[W6] },
    Mutation { name: "tell an event twice", apply: repeat_event, caught_by: &[W6] },
    Mutation { name: "swap two events", apply: swap_events, caught_by: &[W6] },
    Mutation { name: "change an event's bytes", apply: change_event, caught_by: &[W6] },
    Mutation { name: "expire without need", apply: expire, caught_by: &[W6] },
    Mutation { name: "read what was replaced", apply: read_stale, caught_by: &[W3] },
    Mutation { name: "read other bytes", apply: read_other, caught_by: &[W3] },
    Mutation { name: "lose an acknowledged write", apply: lose, caught_by: &[W1] },
    Mutation { name: "acknowledge other bytes", apply: acknowledge_other, caught_by: &[W1] },
    Mutation { name: "acknowledge a revision twice", apply: acknowledge_twice, caught_by: &[W1] },
    Mutation { name: "replace what was not expected", apply: replace_other, caught_by: &[W2] },
    Mutation { name: "swap two writes in time", apply: swap_writes, caught_by: &[W3] },
    Mutation { name: "refuse what was written", apply: refuse_written, caught_by: &[W4] },
    Mutation { name: "find nothing where something is", apply: find_nothing, caught_by: &[W3, W4] },
    Mutation { name: "write an unknown one twice", apply: write_unknown_twice, caught_by: &[W5] },
    Mutation { name: "write what nobody asked for", apply: write_unasked, caught_by: &[Log] },
    Mutation { name: "leave out an item of a list", apply: drop_item, caught_by: &[W3, W7] },
    Mutation { name: "list a page of another moment", apply: page_elsewhere, caught_by: &[W7] },
];

/// Returns the index of a random line that satisfies `wanted`.
fn draw(lines: &[Line], rng: &mut StdRng, wanted: impl Fn(usize, &Line) -> bool) -> Option<usize> {
    let found: Vec<_> = lines.iter().enumerate().filter(|(at, line)| wanted(*at, line)).map(|(at, _)| at).collect();
    if found.is_empty() { None } else { Some(found[rng.random_range(0..found.len())]) }
}

fn call(line: &Line) -> Option<&Call> {
    if let Line::Call(call) = line { Some(call) } else { None }
}

fn call_mut(line: &mut Line) -> &mut Call {
    if let Line::Call(call) = line { call } else { panic!("it is a call") }
}

fn is(line: &Line, outcome: Outcome, ops: &[Op]) -> bool {
    call(line).is_some_and(|call| call.outcome == outcome && ops.contains(&call.op))
}

fn object(line: &Line) -> Option<&Event> {
    match line {
        Line::Event(event) if event.body.is_some() => Some(event),
        _ => None,
    }
}

fn records(lines: &[Line]) -> impl Iterator<Item = &Record> {
    lines.iter().filter_map(|line| if let Line::Record(record) = line { Some(record) } else { None })
}

fn drop_event(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    // An event after which the watch delivers a further event, so that only the removed event is missing.
    let next = |at: usize, line: &Line| {
        object(line).is_some() && matches!(&lines.get(at + 1), Some(Line::Event(e)) if e.told != EventType::Gone)
    };
    let Some(at) = draw(lines, rng, next) else { return false };
    lines.remove(at);
    true
}

fn repeat_event(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| object(line).is_some()) else { return false };
    lines.insert(at, lines[at].clone());
    true
}

fn swap_events(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let three = |at: usize, line: &Line| {
        let followed = |n: usize| lines.get(at + n).is_some_and(|line| !matches!(line, Line::Watch(_)));
        object(line).is_some() && lines.get(at + 1).and_then(object).is_some() && followed(2)
    };
    let Some(at) = draw(lines, rng, three) else { return false };
    let (first, second) = (object(&lines[at]).unwrap().clone(), object(&lines[at + 1]).unwrap().clone());
    lines[at] = Line::Event(Event { at: first.at, ..second.clone() });
    lines[at + 1] = Line::Event(Event { at: second.at, ..first });
    true
}

fn change_event(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| object(line).is_some()) else { return false };
    let Line::Event(event) = &mut lines[at] else { return false };
    event.body = Some("other".to_owned());
    true
}

fn expire(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    if lines.iter().any(|line| matches!(line, Line::Floor(_))) {
        return false;
    }
    let Some(at) = draw(lines, rng, |_, line| object(line).is_some()) else { return false };
    let Line::Event(event) = lines[at].clone() else { return false };
    let later = |line: &Line| match line {
        Line::Watch(open) => open.watch == event.watch,
        Line::Event(other) => other.watch == event.watch,
        Line::End(end) => end.watch == event.watch,
        _ => false,
    };
    let mut rest = lines.split_off(at);
    rest.retain(|line| !later(line));
    lines.push(Line::Event(Event { told: EventType::Gone, key: String::new(), revision: None, body: None, ..event }));
    lines.extend(rest);
    true
}

fn read_stale(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let replaced = |call: &Call| -> Option<u64> {
        let record = records(lines).find(|record| Some(record.revision) == call.revision)?;
        let writes = lines.iter().filter_map(crate::mutate::call);
        let mut writes =
            writes.filter(|write| write.tag.is_some() && write.tag == record.tag && write.outcome == Outcome::Ok);
        writes.find(|write| write.returned.is_some_and(|end| end < call.invoke))?;
        record.prev
    };
    let old = |line: &Line| call(line).filter(|call| call.asked == Asked::Recent).and_then(replaced);
    let wanted = |_: usize, line: &Line| is(line, Outcome::Ok, &[Op::Get]) && old(line).is_some();
    let Some(at) = draw(lines, rng, wanted) else { return false };
    let revision = old(&lines[at]);
    let body = revision.and_then(crate::build::body);
    let call = call_mut(&mut lines[at]);
    (call.revision, call.body) = (revision, body);
    true
}

fn read_other(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, &[Op::Get])) else { return false };
    call_mut(&mut lines[at]).body = Some("other".to_owned());
    true
}

const WRITES: &[Op] = &[Op::Create, Op::Update];

fn lose(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, WRITES)) else { return false };
    let revision = call_mut(&mut lines[at]).revision;
    lines.retain(|line| !matches!(line, Line::Record(record) if Some(record.revision) == revision));
    true
}

fn acknowledge_other(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, WRITES)) else { return false };
    call_mut(&mut lines[at]).body = Some("other".to_owned());
    true
}

fn acknowledge_twice(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(one) = draw(lines, rng, |_, line| is(line, Outcome::Ok, WRITES)) else { return false };
    let Some(two) = draw(lines, rng, |at, line| at != one && is(line, Outcome::Ok, WRITES)) else { return false };
    let (revision, body) = (call_mut(&mut lines[one]).revision, call_mut(&mut lines[one]).body.clone());
    let call = call_mut(&mut lines[two]);
    (call.revision, call.body) = (revision, body);
    true
}

fn replace_other(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, &[Op::Update])) else { return false };
    let call = call_mut(&mut lines[at]);
    call.expect = call.expect.map(|expected| expected + 1);
    true
}

fn swap_writes(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let ok = |line: &Line| is(line, Outcome::Ok, WRITES);
    let after = |early: &Line, late: &Line| match (call(early), call(late)) {
        (Some(early), Some(late)) => early.returned.is_some_and(|end| end < late.invoke),
        _ => false,
    };
    let Some(one) = draw(lines, rng, |_, line| ok(line) && lines.iter().any(|late| ok(late) && after(line, late)))
    else {
        return false;
    };
    let Some(two) = draw(lines, rng, |_, line| ok(line) && after(&lines[one], line)) else { return false };
    let span = |line: &Line| call(line).map(|call| (call.invoke, call.returned)).unwrap();
    let (early, late) = (span(&lines[one]), span(&lines[two]));
    let first = call_mut(&mut lines[one]);
    (first.invoke, first.returned) = late;
    let second = call_mut(&mut lines[two]);
    (second.invoke, second.returned) = early;
    true
}

fn refuse_written(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, WRITES)) else { return false };
    let call = call_mut(&mut lines[at]);
    let reason = if call.op == Op::Create { Reason::Exists } else { Reason::Conflict };
    (call.outcome, call.reason, call.revision, call.body) = (Outcome::Rejected, Some(reason), None, None);
    true
}

fn find_nothing(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    // The object existed before the read began, and the call that deleted it began after the read.
    let firm = |call: &Call| {
        let end = call.returned.unwrap();
        let there = records(lines).any(|record| {
            let made = |write: &&Call| write.outcome == Outcome::Ok && write.tag.is_some() && write.tag == record.tag;
            let maker = lines.iter().filter_map(crate::mutate::call).find(made);
            Some(record.revision) == call.revision && maker.is_some_and(|maker| maker.returned.unwrap() < call.invoke)
        });
        let of_key = |other: &&Call| other.key == call.key && other.op == Op::Delete;
        let mut deletes = lines.iter().filter_map(crate::mutate::call).filter(of_key);
        there && deletes.all(|delete| delete.invoke > end || delete.expect < call.revision)
    };
    let wanted = |_: usize, line: &Line| {
        is(line, Outcome::Ok, &[Op::Get]) && call(line).is_some_and(|call| call.asked == Asked::Recent && firm(call))
    };
    let Some(at) = draw(lines, rng, wanted) else { return false };
    let call = call_mut(&mut lines[at]);
    (call.outcome, call.reason, call.revision, call.body) = (Outcome::Rejected, Some(Reason::Absent), None, None);
    true
}

/// Appends a record, and moves the last covered revision.
fn append(lines: &mut Vec<Line>, record: impl FnOnce(u64) -> Record) {
    let Some(Line::Truth(truth)) = lines.first_mut() else { panic!("the truth comes first") };
    truth.through += 1;
    let revision = truth.through;
    let last = lines.iter().rposition(|line| matches!(line, Line::Record(_))).unwrap();
    lines.insert(last + 1, Line::Record(record(revision)));
}

fn last_of(lines: &[Line], key: &str) -> Option<Record> {
    records(lines).filter(|record| record.key == key).last().cloned()
}

fn write_unknown_twice(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let written = |line: &Line| {
        records(lines).any(|record| record.tag.is_some() && Some(&record.tag) == call(line).map(|call| &call.tag))
    };
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Unknown, WRITES) && written(line)) else {
        return false;
    };
    let call = call_mut(&mut lines[at]).clone();
    let prev = last_of(lines, &call.key).filter(|last| last.body.is_some()).map(|last| last.revision);
    let body = Some("again".to_owned());
    append(lines, |revision| Record { revision, key: call.key, prev, body, tag: call.tag, ..Record::default() });
    true
}

fn write_unasked(lines: &mut Vec<Line>, _: &mut StdRng) -> bool {
    if !lines.iter().any(|line| matches!(line, Line::Record(_))) {
        return false;
    }
    let body = Some("mine".to_owned());
    append(lines, |revision| Record { revision, key: "m/new".to_owned(), body, ..Record::default() });
    true
}

fn page_of(line: &mut Line) -> &mut Page {
    call_mut(line).list.as_mut().unwrap()
}

fn drop_item(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    // The last items of a list that its client did not finish may be missing, so only a page before another page is damaged.
    let full = |line: &Line| {
        call(line).and_then(|call| call.list.as_ref()).is_some_and(|page| !page.items.is_empty() && !page.more)
    };
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, &[Op::List]) && full(line)) else { return false };
    let items = &mut page_of(&mut lines[at]).items;
    items.remove(rng.random_range(0..items.len()));
    true
}

fn page_elsewhere(lines: &mut Vec<Line>, rng: &mut StdRng) -> bool {
    let later = |line: &Line| call(line).and_then(|call| call.list.as_ref()).is_some_and(|page| page.page > 0);
    let Some(at) = draw(lines, rng, |_, line| is(line, Outcome::Ok, &[Op::List]) && later(line)) else { return false };
    let call = call_mut(&mut lines[at]);
    call.revision = call.revision.map(|revision| revision + 1);
    true
}

/// Disturbs single calls on one key in ways that a general checker notices whenever the rules of order do.
pub(crate) fn disturb(lines: &mut [Line], rng: &mut StdRng) {
    let revisions: Vec<u64> = records(lines).map(|record| record.revision).collect();
    let Some(at) = draw(lines, rng, |_, line| call(line).is_some()) else { return };
    let call = call_mut(&mut lines[at]);
    match (rng.random_range(0..3), call.op, call.outcome) {
        (0, Op::Get, Outcome::Ok) if !revisions.is_empty() => {
            let revision = revisions[rng.random_range(0..revisions.len())];
            (call.revision, call.body) = (Some(revision), crate::build::body(revision));
        }
        (1, Op::Get, Outcome::Ok) => {
            (call.outcome, call.reason, call.revision, call.body) =
                (Outcome::Rejected, Some(Reason::Absent), None, None);
        }
        _ => {
            let by = rng.random_range(0..60);
            let late = rng.random_bool(0.5);
            let moved = |at: u64| if late { at + by } else { at.saturating_sub(by) };
            (call.invoke, call.returned) = (moved(call.invoke), call.returned.map(moved));
        }
    }
}

/// Rules of order, which [`Second`] judges as well.
pub(crate) const ORDER: [Rule; 2] = [W3, W4];
pub(crate) const OPINION: Rule = Second;
