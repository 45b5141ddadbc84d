//! Pods that have failed: when they are replaced, and what their successors carry on.

use super::{planned, set, waits};

#[test]
fn a_failed_pod_is_replaced_at_once_and_each_further_one_after_twice_the_pause() {
    let set = set(|_| {});
    for (present, expected, wait) in [
        ("a1: failed", "+a(1)<a1", None),
        ("a1: failed failures=1 age=0", "", Some(1)),
        ("a1: failed failures=1 age=1", "+a(2)<a1", None),
        ("a1: failed failures=4 age=7", "", Some(1)),
        ("a1: failed failures=4 age=8", "+a(5)<a1", None),
        ("a1: failed failures=10 age=511", "", Some(1)),
        ("a1: failed failures=11 age=512", "", Some(388)),
        ("a1: failed failures=99 age=899", "", Some(1)),
        ("a1: failed failures=99 age=900", "+a(100)<a1", None),
        // Failures of long ago are forgotten.
        ("a1: failed failures=5 age=1801", "+a(1)<a1", None),
        // The clock was set back.
        ("a1: failed failures=3 age=-100", "", Some(4)),
    ] {
        assert_eq!((planned(&set, "a", present).as_str(), waits(&set, "a", present)), (expected, wait), "{present}");
    }
}

#[test]
fn a_failed_pod_is_deleted_when_its_node_needs_no_successor() {
    let set = set(|_| {});
    for (on, present, expected) in [
        ("a", "a1: failed, a2: ok", "-a1!"),
        ("a", "a1: failed failures=3 age=1, a2: ok", ""),
        ("a: x:NoSchedule", "a1: failed", "-a1!"),
        ("a: x:NoSchedule", "a1: failed failures=3 age=1", ""),
    ] {
        assert_eq!(planned(&set, on, present), expected, "{present} on {on}");
    }
}

#[test]
fn a_successor_has_one_more_failure_before_it_than_the_failed_pods() {
    let set = set(|_| {});
    for (present, expected) in [
        ("a1: failed, a2: failed failures=2 age=5", "+a(3)<a1<a2"),
        ("a1: failed, a2: failed failures=3 age=1", ""),
        // The successor waits for the end of a pod that is being deleted, and the failed pod keeps the count until then.
        ("a1: failed, a2: going", ""),
        // Failures of an earlier template do not count.
        ("a1: failed old failures=9 age=1", "+a(1)<a1"),
    ] {
        assert_eq!(planned(&set, "a", present), expected, "{present}");
    }
}
