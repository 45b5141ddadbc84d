//! Tests every rule with histories that violate it, each beside one that nearly does.

use oarlock_check::Rule::{F1, Log, Second, W1, W2, W3, W4, W5, W6, W7};
use oarlock_check::history::{Asked, Call, Claim, EventType, Line, Op, Reason, Record};

use crate::build::*;

/// Makes a log: `m/a` is created at 1 and updated at 2, `m/b` is created at 3.
fn three() -> Vec<Line> {
    vec![truth(3), put(1, "m/a", None), put(2, "m/a", 1), put(3, "m/b", None)]
}

#[test]
fn the_log_is_one_order_that_names_predecessors() {
    breaks(&three(), []);
    breaks(&[truth(3), put(2, "m/a", None), put(1, "m/b", None)], [Log]);
    breaks(&[truth(3), put(1, "m/a", None), put(1, "m/b", None)], []);
    breaks(&[truth(3), put(1, "m/a", None), put(1, "m/a", 1)], [Log]);
    breaks(&[truth(3), put(1, "m/a", None), put(2, "m/a", None)], [Log]);
    breaks(&[truth(3), put(1, "m/a", None), put(2, "m/b", 1)], [Log]);
    breaks(&[truth(1), put(2, "m/a", None)], [Log]);
    breaks(&[truth(3), put(1, "m/a", None), gone(2, "m/a", 1), put(3, "m/a", 1)], [Log]);
    breaks(&[truth(3), put(1, "m/a", None), gone(2, "m/a", 1), put(3, "m/a", None)], []);
    let never_there = Line::Record(Record { revision: 1, key: "m/a".to_owned(), ..Record::default() });
    breaks(&[truth(3), never_there], [Log]);
}

#[test]
fn a_record_of_the_clients_own_was_asked_for() {
    let log = [own_truth(2), put(1, "m/a", None), gone(2, "m/a", 1)];
    breaks(&lines(&log, [create(1, "m/a", (1, 2)), delete("m/a", 1, (3, 4))]), []);
    breaks(&lines(&log, [create(1, "m/a", (1, 2)), unknown(delete("m/a", 1, (3, 4)))]), []);
    breaks(&lines(&log, [create(1, "m/a", (1, 2))]), [Log]);
    // The server's second attempt found nothing because its first attempt had deleted the object.
    breaks(&lines(&log, [create(1, "m/a", (1, 2)), refused(delete("m/a", 1, (3, 4)), Reason::Absent)]), [Log, Second]);
    breaks(&lines(&[own_truth(2), put(1, "n/a", None)], []), []);
}

#[test]
fn an_acknowledged_write_is_in_the_log() {
    let log = three();
    breaks(&lines(&log, [create(1, "m/a", (1, 2)), update(2, "m/a", 1, (3, 4))]), []);
    // A lost write.
    breaks(&lines(&log, [create(4, "m/c", (1, 2))]), [W1]);
    // A write with other bytes, a write of another key, another write at the revision, a deletion instead of a write.
    breaks(&lines(&log, [Call { body: body(9), ..create(1, "m/a", (1, 2)) }]), [W1]);
    breaks(&lines(&log, [create(1, "m/b", (1, 2))]), [W1]);
    breaks(&lines(&log, [Call { tag: tag(9), ..create(1, "m/a", (1, 2)) }]), [W1]);
    breaks(&lines(&[truth(2), put(1, "m/a", None), gone(2, "m/a", 1)], [update(2, "m/a", 1, (1, 2))]), [W1]);
}

#[test]
fn one_acknowledgement_per_revision() {
    let second = Call { tag: tag(9), ..create(1, "m/a", (1, 2)) };
    breaks(&lines(&three(), [create(1, "m/a", (1, 2)), second]), [W1]);
    // Two records of one revision that no call wrote together.
    let Line::Record(other) = put(1, "m/b", None) else { unreachable!() };
    let together = [truth(1), put(1, "m/a", None), Line::Record(Record { tag: tag(2), ..other })];
    let second = Call { tag: tag(2), ..create(1, "m/b", (1, 2)) };
    breaks(&lines(&together, [create(1, "m/a", (1, 2))]), []);
    breaks(&lines(&together, [create(1, "m/a", (1, 2)), second]), [W1]);
    let log = [truth(2), put(1, "m/a", None), gone(2, "m/a", 1)];
    breaks(&lines(&log, [delete("m/a", 1, (1, 2))]), []);
    breaks(&lines(&log, [delete("m/a", 1, (1, 2)), delete("m/a", 1, (1, 2))]), [W1]);
    // The second deletion was refused, because it came too late.
    let late = refused(delete("m/a", 1, (1, 2)), Reason::Absent);
    breaks(&lines(&log, [delete("m/a", 1, (1, 2)), late]), []);
}

#[test]
fn an_acknowledged_write_was_made_once() {
    let Line::Record(again) = put(2, "m/a", 1) else { unreachable!() };
    let log = [truth(2), put(1, "m/a", None), Line::Record(Record { tag: tag(1), ..again })];
    breaks(&lines(&log, [create(1, "m/a", (1, 2))]), [W1]);
    breaks(&lines(&log, [unknown(create(1, "m/a", (1, 2)))]), [W5]);
}

#[test]
fn an_acknowledged_deletion_is_in_the_log() {
    let log = [truth(4), put(1, "m/a", None), gone(2, "m/a", 1), put(3, "m/a", None), put(4, "m/a", 3)];
    breaks(&lines(&log, [delete("m/a", 1, (1, 2))]), []);
    breaks(&lines(&log, [Call { revision: Some(2), ..delete("m/a", 1, (1, 2)) }]), []);
    breaks(&lines(&log, [delete("m/a", 3, (1, 2))]), [W1]);
    breaks(&lines(&log, [delete("m/b", 1, (1, 2))]), [W1]);
    breaks(&lines(&log, [Call { revision: Some(4), ..delete("m/a", 3, (1, 2)) }]), [W1]);
}

#[test]
fn a_write_follows_what_it_expected() {
    let log = [truth(4), put(1, "m/a", None), put(2, "m/a", 1), put(3, "m/a", 2), gone(4, "m/a", 3)];
    breaks(&lines(&log, [update(3, "m/a", 2, (1, 2)), Call { expect: None, ..update(2, "m/a", 1, (1, 2)) }]), []);
    // A lost update: the write replaced a revision that its writer never read.
    breaks(&lines(&log, [update(3, "m/a", 1, (1, 2))]), [W2]);
    breaks(&lines(&log, [create(2, "m/a", (1, 2))]), [W2]);
    breaks(&lines(&log, [Call { expect: None, ..update(1, "m/a", 1, (1, 2)) }]), [W2]);
    breaks(&lines(&log, [Call { revision: Some(4), ..delete("m/a", 2, (1, 2)) }]), [W2]);
    // A write of unknown outcome that replaced a revision other than the expected one.
    breaks(&lines(&log, [unknown(update(3, "m/a", 1, (1, 2)))]), [W2]);
    breaks(&lines(&log, [unknown(update(3, "m/a", 2, (1, 2)))]), []);
}

#[test]
fn what_returned_earlier_has_the_lower_revision() {
    let log = three();
    breaks(&lines(&log, [create(3, "m/b", (1, 2)), update(2, "m/a", 1, (2, 4))]), []);
    breaks(&lines(&log, [create(3, "m/b", (1, 2)), update(2, "m/a", 1, (3, 4))]), [W3]);
    // A write of unknown outcome took effect at a revision below a write that had returned before it began.
    breaks(&lines(&log, [create(3, "m/b", (1, 2)), unknown(update(2, "m/a", 1, (3, 4)))]), [W3]);
    // An object is read, listed or watched before it was written.
    breaks(&lines(&log, [get(3, "m/b", (1, 2)), create(3, "m/b", (3, 4))]), [W3]);
    breaks(&lines(&log, [get(3, "m/b", (1, 3)), create(3, "m/b", (3, 4))]), []);
    let items = [("m/a", 2), ("m/b", 3)];
    breaks(&lines(&log, [list(3, &items, (1, 2)), create(3, "m/b", (3, 4))]), [W3]);
    let watched = [log.clone(), vec![open(2, 1), told(EventType::Added, "m/b", 3, 3, 2)]].concat();
    breaks(&lines(&watched, [create(3, "m/b", (2, 4))]), []);
    breaks(&lines(&watched, [create(3, "m/b", (3, 4))]), [W3]);
    // Two calls may have made the same deletion; one of them began early enough.
    let log = [truth(3), put(1, "m/a", None), gone(2, "m/a", 1), put(3, "m/b", None)];
    let (early, late) = (unknown(delete("m/a", 1, (1, 9))), unknown(delete("m/a", 1, (5, 9))));
    breaks(&lines(&log, [late.clone(), early, create(3, "m/b", (2, 4))]), []);
    breaks(&lines(&log, [late, create(3, "m/b", (2, 4))]), [W3]);
}

#[test]
fn a_read_equals_the_log() {
    let log = three();
    breaks(&lines(&log, [get(2, "m/a", (1, 2)), list(3, &[("m/a", 2), ("m/b", 3)], (1, 2))]), []);
    breaks(&lines(&log, [Call { body: body(1), ..get(2, "m/a", (1, 2)) }]), [W3]);
    breaks(&lines(&log, [get(9, "m/a", (1, 2))]), [W3]);
    breaks(&lines(&log, [get(3, "m/a", (1, 2))]), [W3]);
    breaks(&lines(&log, [list(3, &[("m/a", 2)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(3, &[("m/b", 3)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(3, &[("m/b", 3), ("m/a", 2)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(2, &[("m/a", 2), ("m/b", 3)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(3, &[("m/a", 1), ("m/b", 3)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(7, &[("m/a", 2), ("m/b", 3)], (1, 2))]), [W3]);
    breaks(&lines(&log, [list(1, &[("m/a", 1)], (1, 2))]), []);
}

#[test]
fn a_most_recent_read_is_fresh() {
    let log = three();
    let write = update(2, "m/a", 1, (1, 4));
    breaks(&lines(&log, [write.clone(), get(1, "m/a", (4, 5))]), []);
    breaks(&lines(&log, [write.clone(), get(1, "m/a", (5, 6))]), [W3]);
    breaks(&lines(&log, [write.clone(), list(1, &[("m/a", 1)], (5, 6))]), [W3]);
    // A later write of another key proves that the revision existed.
    breaks(&lines(&log, [create(3, "m/b", (1, 4)), get(1, "m/a", (5, 6))]), [W3]);
    // A read that returned the revision proves it too: most recent reads never go back.
    breaks(&lines(&log, [get(2, "m/a", (1, 2)), get(1, "m/a", (3, 4))]), [W3]);
    breaks(&lines(&log, [get(2, "m/a", (1, 3)), get(1, "m/a", (3, 4))]), []);
    // A read that accepts older states may get any of them, but none older than it asked for.
    let old = |wanted| asked(get(1, "m/a", (5, 6)), wanted);
    breaks(&lines(&log, [write.clone(), old(Asked::AtLeast(0))]), []);
    breaks(&lines(&log, [write.clone(), old(Asked::AtLeast(1))]), []);
    breaks(&lines(&log, [write, old(Asked::AtLeast(2))]), [W3]);
    let old = |wanted| asked(list(1, &[("m/a", 1)], (5, 6)), wanted);
    breaks(&lines(&log, [old(Asked::AtLeast(1)), get(2, "m/a", (1, 2))]), []);
    breaks(&lines(&log, [old(Asked::Exactly(1))]), []);
    breaks(&lines(&log, [old(Asked::AtLeast(2))]), [W3]);
    breaks(&lines(&log, [old(Asked::Exactly(2))]), [W3]);
}

#[test]
fn a_refusal_is_justified() {
    let log = [truth(4), put(1, "m/a", None), gone(2, "m/a", 1), put(3, "m/a", None), put(4, "m/a", 3)];
    let other = |op| Call { tag: Some("other".to_owned()), ..call(op, "m/a", (5, 6)) };
    let exists = refused(other(Op::Create), Reason::Exists);
    let absent = refused(call(Op::Get, "m/a", (5, 6)), Reason::Absent);
    let conflict = |expect| refused(Call { expect: Some(expect), ..other(Op::Update) }, Reason::Conflict);
    // Without further knowledge each refusal is justified.
    for refusal in [&exists, &absent, &conflict(4)] {
        breaks(&lines(&log, [refusal.clone()]), []);
    }
    // The object was deleted and created again during the call.
    breaks(&lines(&log, [create(1, "m/a", (1, 2)), absent.clone(), get(4, "m/a", (1, 9))]), []);
    // From revision 3 on the object exists.
    breaks(&lines(&log, [create(3, "m/a", (3, 4)), absent.clone()]), [W4]);
    breaks(&lines(&log, [create(3, "m/a", (3, 5)), absent]), []);
    breaks(&lines(&log, [update(4, "m/a", 3, (3, 4)), conflict(4)]), [W4]);
    breaks(&lines(&log, [update(4, "m/a", 3, (3, 4)), conflict(3)]), []);
    let refusal = refused(Call { expect: Some(4), ..call(Op::Delete, "m/a", (5, 6)) }, Reason::Absent);
    breaks(&lines(&log, [update(4, "m/a", 3, (3, 4)), refusal]), [W4]);
    // The write that would justify the refusal began after the refusal had returned.
    let log = [truth(2), put(1, "m/a", None), gone(2, "m/a", 1)];
    breaks(
        &lines(
            &log,
            [create(1, "m/a", (1, 2)), refused(get(1, "m/a", (3, 4)), Reason::Absent), delete("m/a", 1, (5, 6))],
        ),
        [W3],
    );
    breaks(&lines(&log, [delete("m/a", 1, (1, 2)), Call { tag: Some("x".to_owned()), ..exists.clone() }]), [W4]);
    breaks(&lines(&log, [delete("m/a", 1, (1, 5)), exists]), []);
    // A reason that does not depend on the state is always justified.
    breaks(&lines(&log, [refused(other(Op::Create), Reason::Other)]), []);
}

#[test]
fn what_was_refused_was_not_written() {
    let log = three();
    breaks(&lines(&log, [refused(update(2, "m/a", 1, (1, 2)), Reason::Conflict)]), [W4]);
    breaks(&lines(&log, [refused(create(3, "m/b", (1, 2)), Reason::Other)]), [W4]);
}

#[test]
fn an_expired_read_asked_for_what_is_below_the_floor() {
    let exactly = |revision| refused(asked(list(1, &[], (5, 6)), Asked::Exactly(revision)), Reason::Expired);
    let log = [three(), vec![floor(2, 6)]].concat();
    breaks(&lines(&log, [exactly(1)]), []);
    breaks(&lines(&log, [exactly(2)]), [W4]);
    breaks(&lines(&[three(), vec![floor(2, 7)]].concat(), [exactly(1)]), [W4]);
    breaks(&lines(&three(), [exactly(1)]), [W4]);
    // The second page of a list at revision 1.
    let first = page("l", 0, true, 1, &[], (1, 2));
    let second = refused(page("l", 1, false, 1, &[], (5, 6)), Reason::Expired);
    breaks(&lines(&log, [first.clone(), second.clone()]), []);
    breaks(&lines(&three(), [first, second]), [W4]);
    breaks(&lines(&log, [refused(list(1, &[], (5, 6)), Reason::Expired)]), [W4]);
}

#[test]
fn an_unknown_write_happens_at_most_once() {
    let Line::Record(again) = put(4, "m/a", 2) else { unreachable!() };
    let twice = Line::Record(Record { tag: tag(2), ..again });
    let log = [truth(4), put(1, "m/a", None), put(2, "m/a", 1), put(3, "m/b", None), twice];
    breaks(&lines(&log, [unknown(Call { expect: None, ..update(2, "m/a", 1, (1, 2)) })]), [W5]);
    breaks(&lines(&three(), [unknown(update(2, "m/a", 1, (1, 2)))]), []);
    breaks(&lines(&three(), [unknown(update(7, "m/a", 1, (1, 2)))]), []);
    // The write of another key.
    breaks(&lines(&three(), [unknown(create(3, "m/c", (1, 2)))]), [W5]);
}

/// Makes a log: `m/a` is created, gets a label, `m/b` is created, `m/a` changes, loses its label, is deleted.
fn changes() -> Vec<Line> {
    let tier = [("tier", "gold")];
    vec![
        truth(6),
        put(1, "m/a", None),
        labelled(2, "m/a", 1, &tier),
        put(3, "m/b", None),
        labelled(4, "m/a", 2, &tier),
        put(5, "m/a", 4),
        gone(6, "m/a", 5),
    ]
}

#[test]
fn a_watch_tells_the_log() {
    let events = [
        told(EventType::Modified, "m/a", 2, 2, 11),
        told(EventType::Added, "m/b", 3, 3, 12),
        told(EventType::Modified, "m/a", 4, 4, 13),
        told(EventType::Modified, "m/a", 5, 5, 14),
        told(EventType::Deleted, "m/a", 6, 5, 15),
    ];
    let watch = |steps: &[&[Line]]| [&changes(), &[open(1, 10)][..], &steps.concat()].concat();
    breaks(&watch(&[&events, &[end(6, 20)]]), []);
    breaks(&watch(&[&events[..3], &[end(4, 20)]]), []);
    // Missing events: in between, at the end, before a bookmark.
    breaks(&watch(&[&events[..1], &events[2..]]), [W6]);
    breaks(&watch(&[&events[1..]]), [W6]);
    breaks(&watch(&[&events[..4], &[end(6, 20)]]), [W6]);
    breaks(&watch(&[&events[..3], &[bookmark(5, 14)]]), [W6]);
    breaks(&watch(&[&events[..3], &[bookmark(4, 14)], &events[3..]]), []);
    breaks(&watch(&[&events[..3], &[bookmark(3, 14)]]), [W6]);
    // An event twice, and two events out of order.
    breaks(&watch(&[&events[..2], &[told(EventType::Added, "m/b", 3, 3, 12)], &events[2..]]), [W6]);
    let swapped = [told(EventType::Added, "m/b", 3, 3, 11), told(EventType::Modified, "m/a", 2, 2, 12)];
    breaks(&watch(&[&swapped, &events[2..]]), [W6]);
    // Events of another type, with other bytes, of another key, of a write that does not exist.
    breaks(&watch(&[&[told(EventType::Added, "m/a", 2, 2, 11)]]), [W6]);
    breaks(&watch(&[&[told(EventType::Modified, "m/a", 2, 1, 11)]]), [W6]);
    breaks(&watch(&[&[told(EventType::Modified, "m/b", 2, 2, 11)]]), [W6]);
    breaks(&watch(&[&events, &[told(EventType::Added, "m/a", 7, 7, 20)]]), [W6]);
    breaks(&watch(&[&events[..4], &[told(EventType::Deleted, "m/a", 6, 6, 15)]]), [W6]);
}

#[test]
fn a_selector_is_obeyed() {
    let gold = open_for(&[("tier", "gold")], 1, 10);
    let events = [
        told(EventType::Added, "m/a", 2, 2, 11),
        told(EventType::Modified, "m/a", 4, 4, 12),
        told(EventType::Deleted, "m/a", 5, 4, 13),
    ];
    let watch = |steps: &[&[Line]]| [&changes(), &[gold.clone()][..], &steps.concat()].concat();
    breaks(&watch(&[&events, &[end(6, 20)]]), []);
    breaks(&watch(&[&events[..2], &[told(EventType::Modified, "m/a", 5, 5, 13)]]), [W6]);
    breaks(&watch(&[&events[..2], &[told(EventType::Deleted, "m/a", 5, 5, 13)]]), [W6]);
    breaks(&watch(&[&events[..1], &[told(EventType::Added, "m/b", 3, 3, 12)], &events[1..]]), [W6]);
    breaks(&watch(&[&events, &[told(EventType::Deleted, "m/a", 6, 5, 14)]]), [W6]);
    breaks(&watch(&[&events[..2], &[end(6, 20)]]), [W6]);
}

#[test]
fn a_resumed_watch_goes_on_where_it_was() {
    let log = [truth(3), put(1, "m/a", None), put(2, "m/b", None), put(3, "m/c", None)];
    let tell = |key, revision, at| told(EventType::Added, key, revision, revision, at);
    let watch = |steps: &[Line]| [&log, &[open(0, 10), tell("m/a", 1, 11), open(1, 12)][..], steps].concat();
    breaks(&watch(&[tell("m/b", 2, 13), tell("m/c", 3, 14), end(3, 15)]), []);
    breaks(&watch(&[tell("m/c", 3, 14)]), [W6]);
    breaks(&watch(&[tell("m/a", 1, 13), tell("m/b", 2, 13), tell("m/c", 3, 14)]), [W6]);
}

#[test]
fn a_watch_expires_only_below_the_floor() {
    let watch = |floors: &[Line]| [&changes(), &[open(1, 10), expired(12)][..], floors].concat();
    breaks(&watch(&[floor(2, 12)]), []);
    breaks(&watch(&[floor(1, 12)]), [W6]);
    breaks(&watch(&[floor(2, 13)]), [W6]);
    breaks(&watch(&[]), [W6]);
}

#[test]
fn pages_are_one_state() {
    let log = [truth(4), put(1, "m/a", None), put(2, "m/b", None), put(3, "m/c", None), gone(4, "m/b", 2)];
    let pages = |first: u64, one: &[(&str, u64)], second: u64, other: &[(&str, u64)], more: bool| {
        lines(&log, [page("l", 0, true, first, one, (1, 2)), page("l", 1, more, second, other, (3, 4))])
    };
    breaks(&pages(3, &[("m/a", 1), ("m/b", 2)], 3, &[("m/c", 3)], false), []);
    // A client may stop reading after a page.
    breaks(&pages(3, &[("m/a", 1)], 3, &[("m/b", 2)], true), []);
    breaks(&pages(3, &[("m/a", 1)], 3, &[("m/b", 2)], false), [W7]);
    breaks(&pages(3, &[("m/a", 1)], 3, &[("m/c", 3)], false), [W7]);
    breaks(&pages(3, &[("m/a", 1), ("m/b", 2)], 3, &[("m/b", 2), ("m/c", 3)], false), [W7]);
    // The second page shows a later revision.
    breaks(&pages(3, &[("m/a", 1)], 4, &[("m/c", 3)], false), [W7]);
    breaks(&pages(3, &[("m/a", 1)], 4, &[("m/b", 2), ("m/c", 3)], false), [W7]);
    breaks(&pages(4, &[("m/a", 1), ("m/b", 2)], 4, &[("m/c", 3)], false), [W7]);
}

#[test]
fn a_second_opinion_is_asked_for_small_histories() {
    let log = [own_truth(2), put(1, "m/a", None), put(2, "m/a", 1)];
    let writes = [create(1, "m/a", (1, 2)), update(2, "m/a", 1, (3, 4))];
    let with = |call: Call| lines(&log, writes.iter().cloned().chain([call]));
    breaks(&with(get(1, "m/a", (4, 5))), []);
    breaks(&with(get(1, "m/a", (5, 6))), [W3, Second]);
    breaks(&with(refused(get(1, "m/a", (5, 6)), Reason::Absent)), [W4, Second]);
    breaks(&with(asked(get(1, "m/a", (5, 6)), Asked::AtLeast(1))), []);
    let exists = Call { tag: Some("x".to_owned()), ..create(1, "m/a", (0, 1)) };
    breaks(&with(refused(exists.clone(), Reason::Exists)), []);
    breaks(&with(refused(Call { returned: Some(0), ..exists }, Reason::Exists)), [W3, Second]);
}

#[test]
fn the_state_that_the_truth_begins_with_counts() {
    let Line::Truth(mut truth) = own_truth(6) else { unreachable!() };
    truth.after = 5;
    let log = [Line::Truth(truth), put(3, "m/a", 2), put(5, "m/b", None), put(6, "m/a", 3)];
    let calls = [get(3, "m/a", (1, 2)), update(6, "m/a", 3, (3, 4)), list(5, &[("m/a", 3), ("m/b", 5)], (1, 2))];
    breaks(&lines(&log, calls.clone()), []);
    let late = asked(list(5, &[("m/b", 5)], (1, 2)), Asked::AtLeast(0));
    breaks(&lines(&log, [calls[1].clone(), late]), [W3]);
    let twice = [log[0].clone(), put(3, "n/a", 2), put(5, "n/a", 3)];
    breaks(&twice, [Log]);
}

/// Makes a write under a claim to unit `u`.
fn claimed(epoch: u64, revision: u64, key: Option<&str>) -> Line {
    Line::Claim(Claim { unit: "u".to_owned(), epoch, revision, key: key.map(str::to_owned) })
}

#[test]
fn a_fenced_write_lies_between_its_epoch_and_the_next() {
    let unit = "oarlock.dev/assignments/u";
    // The unit is assigned at 1, reassigned at 4 and deleted at 7.
    let log = [
        truth(8),
        put(1, unit, None),
        put(2, "m/a", None),
        put(3, "oarlock.dev/assignments/other", None),
        put(4, unit, 1),
        put(5, "m/a", 2),
        put(6, "m/b", None),
        gone(7, unit, 4),
        put(8, "m/c", None),
    ];
    let with = |claim: Line| [&log[..], &[claim]].concat();
    breaks(&with(claimed(1, 2, Some("m/a"))), []);
    breaks(&with(claimed(4, 5, Some("m/a"))), []);
    breaks(&with(claimed(4, 6, None)), []);
    // The holder may reassign the unit: the claim is compared with the state before the write.
    breaks(&with(claimed(1, 4, Some(unit))), []);
    // Writes after the next epoch, before their own epoch, under an unknown epoch, and after the unit's deletion.
    breaks(&with(claimed(1, 5, Some("m/a"))), [F1]);
    breaks(&with(claimed(4, 2, Some("m/a"))), [F1]);
    breaks(&with(claimed(3, 5, Some("m/a"))), [F1]);
    breaks(&with(claimed(4, 8, Some("m/c"))), [F1]);
    // Claims about a revision that is not in the log or has another key there.
    breaks(&with(claimed(4, 9, None)), [F1]);
    breaks(&with(claimed(4, 5, Some("m/b"))), [F1]);
}
