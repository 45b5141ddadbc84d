//! Rolling updates that delete old pods first.

use super::{planned, rolling, set};
use crate::project::{Amount, DaemonUpdate};

#[test]
fn old_pods_are_replaced_within_the_unavailable_nodes_and_broken_ones_at_once() {
    use Amount::{Count, Percent};
    for (unavailable, present, expected) in [
        (Count(1), "a1: old, b1: old, c1: old", "-a1"),
        (Count(1), "a1: ok, b1: old, c1: old", "-b1"),
        (Count(1), "a1: ok, b1: ok, c1: ok", ""),
        (Count(1), "a1: numbered, b1: ok, c1: ok", ""),
        (Count(1), "a1: old going, b1: old, c1: old", ""),
        (Count(1), "a1: pending, b1: old, c1: old", ""),
        (Count(1), "a1: old unready, b1: old, c1: old", "-a1"),
        (Count(1), "a1: old unready, b1: old unready, c1: old", "-a1 -b1"),
        (Count(1), "a1: pending, b1: old unready, c1: old", "-b1"),
        (Count(2), "a1: old unready, b1: old, c1: old", "-a1 -b1"),
        (Count(2), "a1: old, b1: old, c1: old", "-a1 -b1"),
        (Count(2), "a1: old, b1: unbound, c1: old", "-a1"),
        (Percent(33), "a1: old, b1: old, c1: old", "-a1"),
        (Percent(34), "a1: old, b1: old, c1: old", "-a1 -b1"),
        // Validation refuses this.
        (Count(0), "a1: old, b1: old, c1: old", "-a1"),
    ] {
        let set = set(|set| set.value.update = rolling(unavailable.clone(), Count(0)));
        assert_eq!(planned(&set, "a, b, c", present), expected, "{unavailable:?} of {present}");
    }
}

#[test]
fn a_pod_that_has_just_become_ready_is_not_available_yet() {
    let set = set(|set| set.value.min_ready = 60);
    assert_eq!(planned(&set, "a, b", "a1: fresh, b1: old"), "");
    assert_eq!(planned(&set, "a, b", "a1: old fresh, b1: old"), "-a1");
    assert_eq!(super::waits(&set, "a, b", "a1: fresh, b1: old"), Some(50));
}

#[test]
fn a_roll_waits_until_every_node_has_its_one_pod() {
    let set = set(|_| {});
    assert_eq!(planned(&set, "a, b, c", "a1: old, b1: old"), "+c");
    assert_eq!(planned(&set, "a, b", "a1: old, a2: old younger, b1: old"), "-a2");
    assert_eq!(planned(&set, "a, b: x:NoExecute", "a1: old, b1: old"), "-b1");
}

#[test]
fn old_pods_of_nodes_that_get_no_new_one_count_too() {
    let set = set(|_| {});
    assert_eq!(planned(&set, "a: x:NoSchedule, b", "a1: old, b1: old"), "-a1");
    assert_eq!(planned(&set, "a: x:NoSchedule, b", "a1: old going, b1: old"), "");
    assert_eq!(planned(&set, "b", "a1: old, b1: ok"), "-a1", "the node of a1 does not exist");
}

#[test]
fn an_update_on_delete_replaces_nothing() {
    let set = set(|set| set.value.update = DaemonUpdate::OnDelete);
    assert_eq!(planned(&set, "a, b", "a1: old, b1: old unready"), "");
    assert_eq!(planned(&set, "a, b", "a1: old"), "+b");
}
