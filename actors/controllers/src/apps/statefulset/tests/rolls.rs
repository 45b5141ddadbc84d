//! Rolling updates: which pods are replaced, and which revision a new pod gets.

use super::{planned, planned_with, pods, set, shown};
use crate::project::{Amount, Replacement};

fn rolling(partition: Option<i64>, unavailable: Amount) -> Replacement {
    Replacement::Rolling { partition, unavailable }
}

#[test]
fn pods_are_replaced_from_the_highest_ordinal_within_the_unavailable_ones() {
    use Amount::{Count, Percent};
    for (parallel, unavailable, present, expected) in [
        (false, Count(1), "0: old, 1: old, 2: old", "-web-2"),
        (false, Count(1), "0: old, 1: old, 2: ok", "-web-1"),
        (false, Count(1), "0: old, 1: old, 2: pending", ""),
        (false, Count(2), "0: old, 1: old, 2: old", "-web-2 | -web-1"),
        (false, Count(2), "0: old, 1: old, 2: going", ""),
        (true, Count(1), "0: old, 1: old, 2: going", ""),
        (true, Count(2), "0: old, 1: old, 2: going", "-web-1"),
        (true, Count(2), "0: old unready, 1: old, 2: ok", "-web-1"),
        (true, Count(1), "0: old unready, 1: old, 2: ok", ""),
        (true, Count(3), "0: old, 1: older, 2: old", "-web-2 -web-1 -web-0"),
        (true, Count(2), "0: old, 2: old", "+1 | -web-2"),
        (true, Count(3), "0: old, 1: failed old, 2: old", "-web-1 | -web-2 -web-0"),
        (false, Percent(67), "0: old, 1: old, 2: old", "-web-2 | -web-1"),
        (false, Percent(66), "0: old, 1: old, 2: old", "-web-2"),
        (false, Percent(10), "0: old, 1: old, 2: old", "-web-2"),
    ] {
        let set = set(3, |set| {
            set.value.parallel = parallel;
            set.value.replacement = rolling(Some(0), unavailable.clone());
        });
        assert_eq!(shown(&planned(&set, &pods(present))), expected, "{unavailable:?} of {present:?}");
    }
}

#[test]
fn without_the_gate_one_pod_is_replaced_at_a_time() {
    for (parallel, present, expected) in [
        (false, "0: old, 1: old, 2: old", "-web-2"),
        (true, "0: old unready, 1: old, 2: ok", "-web-1"),
        (true, "0: old, 1: old, 2: unready", ""),
        (true, "0: old, 1: old, 2: unready old", "-web-2"),
        (true, "0: old, 1: old, 2: going", ""),
        (true, "0: old, 1: old", "+2"),
    ] {
        let set = set(3, |set| {
            set.value.parallel = parallel;
            set.value.replacement = rolling(Some(0), Amount::Count(3));
        });
        let plan = planned_with(&set, &pods(present), &[], false);
        assert_eq!(shown(&plan), expected, "{present:?}");
    }
}

#[test]
fn pods_below_the_partition_keep_their_revision() {
    for (partition, present, expected) in [
        (2, "0: old, 1: old, 2: old", "-web-2"),
        (2, "0: old, 1: old, 2: ok", ""),
        (3, "0: old, 1: old, 2: old", ""),
        (9, "0: old, 1: old, 2: old", ""),
        (0, "0: old, 1: ok, 2: ok", "-web-0"),
        (2, "0: old", "+1@old"),
        (1, "0: old", "+1"),
        (2, "0: old, 1: old", "+2"),
    ] {
        for counts_unavailable in [true, false] {
            let set = set(3, |set| set.value.replacement = rolling(Some(partition), Amount::Count(1)));
            let plan = planned_with(&set, &pods(present), &[], counts_unavailable);
            assert_eq!(shown(&plan), expected, "{partition} of {present:?}");
        }
    }
}

#[test]
fn the_partition_counts_from_the_first_ordinal() {
    let set = set(3, |set| {
        set.value.start = 5;
        set.value.replacement = rolling(Some(2), Amount::Count(3));
    });
    assert_eq!(shown(&planned(&set, &pods("5: old, 6: old, 7: old"))), "-web-7");
    assert_eq!(shown(&planned(&set, &pods("5: old"))), "+6@old");
}

#[test]
fn an_update_on_delete_deletes_nothing_and_new_pods_have_the_new_template() {
    let set = set(3, |set| set.value.replacement = Replacement::OnDelete);
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: old, 2: old"))), "");
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: old"))), "+2");
}

#[test]
fn without_parameters_the_pods_of_the_current_revision_keep_it() {
    let set = set(3, |set| {
        set.value.replacement = rolling(None, Amount::Count(1));
        set.value.status.current = 2;
    });
    assert_eq!(shown(&planned(&set, &pods("0: old"))), "+1@old");
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: old"))), "+2");
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: old, 2: old"))), "-web-2");
}

#[test]
fn scaling_comes_before_an_update() {
    let set = set(1, |_| {});
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: old"))), "-web-1");
}

#[test]
fn a_broken_pod_of_the_old_revision_blocks_an_ordered_update() {
    let set = set(2, |_| {});
    assert_eq!(shown(&planned(&set, &pods("0: old, 1: older unready"))), "");
}
