//! Each rule on spans of lives: a good history keeps all of them, and each change of it breaks the one that it should.

use oarlock_check::traces::{self, Fault, Span, Wait};

const OWNER: u128 = 1;
const POD: u128 = 2;
const REQUEST: u128 = 3;
const STEPS: [&str; 4] = ["commit", "queue", "bind", "ready"];

fn span(trace: u128, id: u64, parent: Option<u64>, name: &str, (began, ended): (u64, u64)) -> Span {
    Span { trace, id, parent, name: name.to_owned(), began, ended, ..Span::default() }
}

/// A pod with its owner and the request that made the owner.
fn good() -> Vec<Span> {
    let mut spans = vec![
        span(REQUEST, 30, None, "POST /apis/apps/v1/deployments", (0, 10)),
        span(OWNER, 10, None, "deployment create", (5, 100)),
        span(OWNER, 11, Some(10), "commit", (5, 8)),
        span(POD, 20, None, "pod create", (20, 90)),
        span(POD, 21, Some(20), "commit", (20, 22)),
        span(POD, 22, Some(20), "queue", (22, 30)),
        span(POD, 23, Some(20), "bind", (30, 95)),
        span(POD, 24, Some(20), "ready", (40, 90)),
    ];
    spans[2].links = vec![(REQUEST, 30)];
    spans[4].links = vec![(OWNER, 10)];
    spans
}

fn all(spans: &[Span]) -> Vec<Fault> {
    let wait = Wait { life: POD, asked: 15, seen: 93, at_least: 60 };
    let faults = [
        traces::connected(spans, &[OWNER, POD, REQUEST], &[]),
        traces::none_missing(spans, &[POD], &STEPS),
        traces::none_outlives(spans),
        traces::adds_up(spans, &[wait]),
    ];
    faults.concat()
}

/// Changes the good history; returns the rules that it breaks then.
fn broken(change: impl FnOnce(&mut Vec<Span>)) -> Vec<&'static str> {
    let mut spans = good();
    change(&mut spans);
    let mut rules: Vec<_> = all(&spans).into_iter().map(|fault| fault.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_good_history_keeps_every_rule() {
    assert_eq!(all(&good()), []);
}

#[test]
fn t1_a_lost_parent_a_second_owner_of_an_id_and_a_missing_link_are_found() {
    assert_eq!(broken(|spans| spans[5].parent = Some(99)), ["T1"]);
    assert_eq!(broken(|spans| spans[5].id = 21), ["T1"]);
    assert_eq!(broken(|spans| spans[4].links.clear()), ["T1"]);
    assert_eq!(broken(|spans| spans[2].links.clear()), ["T1"]);
    let open: Vec<Span> = good().into_iter().filter(|span| span.id != 20).collect();
    assert_eq!(traces::connected(&open, &[OWNER, POD], &[]).len(), 4, "the steps of a change without a root");
    assert_eq!(traces::connected(&open, &[OWNER, POD], &[(POD, 20)]), []);
    // The next owner of a unit records a root again.
    assert_eq!(broken(|spans| spans.push(spans[3].clone())), [""; 0]);
    assert_eq!(broken(|spans| spans.push(spans[4].clone())), ["T1"]);
}

#[test]
fn t2_a_missing_and_a_failed_step_are_found() {
    assert_eq!(broken(|spans| drop(spans.remove(6))), ["T2"]);
    assert_eq!(broken(|spans| spans[6].failed = true), ["T2"]);
    let faults = traces::none_missing(&good(), &[9], &["commit"]);
    assert_eq!(faults[0].to_string(), "T2: 00000000000000000000000000000009 has no commit");
}

#[test]
fn t3_a_span_that_outlives_its_change_or_its_request_is_found_and_a_binding_may() {
    assert_eq!(broken(|spans| spans[5].ended = 91), ["T3"]);
    assert_eq!(broken(|spans| spans[4].began = 19), ["T3"]);
    assert_eq!(broken(|spans| spans[2].ended = 11), ["T3"]);
    assert_eq!(broken(|spans| (spans[6].began, spans[6].ended) = (95, 30)), ["T3"]);
    assert_eq!(broken(|spans| spans[6].ended = 99), [""; 0]);
}

#[test]
fn t4_a_change_outside_the_users_wait_and_unexplained_time_are_found() {
    let waited = |asked, seen, at_least| {
        let wait = Wait { life: POD, asked, seen, at_least };
        traces::adds_up(&good(), &[wait]).into_iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!(waited(20, 90, 70), [""; 0]);
    for (asked, seen, at_least) in [(21, 90, 70), (20, 89, 70), (20, 90, 71)] {
        assert_eq!(waited(asked, seen, at_least), ["T4"], "{asked} {seen} {at_least}");
    }
    let no_root: Vec<Span> = good().into_iter().filter(|span| span.id != 20).collect();
    assert!(!traces::adds_up(&no_root, &[Wait { life: POD, asked: 0, seen: 100, at_least: 0 }]).is_empty());
}

#[test]
fn t5_half_a_life_and_a_run_that_samples_nothing_are_found() {
    let faults = |spans: &[Span], lives: &[u128]| traces::whole_or_absent(spans, lives, &STEPS);
    assert_eq!(faults(&good(), &[POD, 9]), []);
    let half: Vec<Span> = good().into_iter().filter(|span| span.name != "bind").collect();
    assert_eq!(faults(&half, &[POD, 9]).first().map(|fault| fault.rule), Some("T5"));
    for all_or_none in [[POD], [9]] {
        assert_eq!(faults(&good(), &all_or_none).len(), 1, "{all_or_none:?}");
    }
}
