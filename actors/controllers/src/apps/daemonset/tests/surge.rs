//! Rolling updates that create new pods beside old ones.

use oarlock_informer::Item;

use super::{planned, rolling, set, waits};
use crate::project::{Amount, DaemonSet};

fn surging(surge: Amount) -> Item<DaemonSet> {
    set(|set| set.value.update = rolling(Amount::Count(0), surge))
}

#[test]
fn new_pods_start_beside_old_ones_which_are_deleted_when_the_new_are_available() {
    use Amount::{Count, Percent};
    for (surge, present, expected) in [
        (Count(1), "a1: old, b1: old, c1: old", "+a"),
        (Count(2), "a1: old, b1: old, c1: old", "+a +b"),
        (Percent(10), "a1: old, b1: old, c1: old", "+a"),
        (Count(1), "a1: old, a2: pending, b1: old, c1: old", ""),
        (Count(2), "a1: old, a2: pending, b1: old, c1: old", "+b"),
        (Count(1), "a1: old, a2: ok, b1: old, c1: old", "-a1"),
        (Count(1), "a1: old going, a2: ok, b1: old, c1: old", "+b"),
        (Count(1), "a2: ok, b1: old, c1: old", "+b"),
        (Count(1), "a1: ok, b1: ok, c1: ok", ""),
        // An old pod that is not ready is replaced beyond the surge, and is not kept beside a new one.
        (Count(1), "a1: old unready, b1: old, c1: old", "+a +b"),
        (Count(1), "a1: old unready, a2: pending, b1: old, c1: old", "-a1"),
        // A node without a pod that stays gets one first.
        (Count(1), "b1: old, c1: old", "+a"),
        (Count(1), "a1: old going, b1: old, c1: old", "+a"),
    ] {
        assert_eq!(planned(&surging(surge.clone()), "a, b, c", present), expected, "{surge:?} of {present}");
    }
}

#[test]
fn of_each_template_one_pod_stays_on_a_node() {
    let set = surging(Amount::Count(1));
    assert_eq!(planned(&set, "a", "a1: ok, a2: younger, a3: old"), "-a2 -a3");
    assert_eq!(planned(&set, "a", "a1: pending, a2: pending younger, a3: old, a4: old younger"), "-a2 -a4");
    assert_eq!(planned(&set, "a", "a1: ok, a2: younger"), "-a2");
    assert_eq!(planned(&set, "a", "a1: old, a2: old younger"), "-a2");
}

#[test]
fn a_new_pod_that_is_not_available_yet_is_waited_for() {
    let set = set(|set| {
        set.value.update = rolling(Amount::Count(0), Amount::Count(1));
        set.value.min_ready = 60;
    });
    assert_eq!(planned(&set, "a", "a1: old, a2: fresh"), "");
    assert_eq!(waits(&set, "a", "a1: old, a2: fresh"), Some(50));
}

#[test]
fn old_pods_of_nodes_that_get_no_new_one_stay_until_enough_others_are_available() {
    let set = surging(Amount::Count(1));
    for (present, expected) in
        [("a1: old, b1: ok", "-a1"), ("a1: old, b1: pending", ""), ("a1: old unready, b1: ok", "-a1")]
    {
        assert_eq!(planned(&set, "a: x:NoSchedule, b", present), expected, "{present}");
    }
}

#[test]
fn new_pods_that_fail_beside_an_old_one_are_retried_after_pauses() {
    let set = surging(Amount::Count(1));
    let others = "b1: old, c1: old";
    for (present, expected, wait) in [
        ("a1: old, a2: failed", "+a(1)<a2", None),
        ("a1: old, a2: failed failures=3 age=1", "", Some(3)),
        ("a1: old, a2: failed failures=3 age=4", "+a(4)<a2", None),
        // While the node waits for its pod, another may have the surge.
        ("a1: failed failures=3 age=1", "+b", Some(3)),
        ("a1: failed failures=3 age=4", "+a(4)<a1", None),
        ("a1: failed old", "+a(1)<a1", None),
    ] {
        let present = format!("{present}, {others}");
        let found = (planned(&set, "a, b, c", &present), waits(&set, "a, b, c", &present));
        assert_eq!(found, (expected.to_owned(), wait), "{present}");
    }
}
