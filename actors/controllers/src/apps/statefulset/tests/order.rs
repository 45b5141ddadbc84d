//! The order in which pods are created and deleted, and the status.

use oarlock_meta::Time;

use super::super::members::ordinal;
use super::super::plan::{BURST, Plan};
use super::super::status::{complete, differs};
use super::{NOW, planned, pod, pods, set, shown};
use crate::project::{Replacement, StatefulSetState};

#[test]
fn a_pod_belongs_to_the_ordinal_whose_name_it_has() {
    for (name, expected) in [
        ("web-0", Some(0)),
        ("web-17", Some(17)),
        ("web-2147483647", Some(2_147_483_647)),
        ("web-2147483648", None),
        ("web-00", None),
        ("web-+1", None),
        ("web--1", None),
        ("web-", None),
        ("web", None),
        ("web-a-0", None),
        ("other-0", None),
    ] {
        assert_eq!(ordinal("web", name), expected, "{name}");
    }
    assert_eq!(ordinal("web-1", "web-1-0"), Some(0));
    assert_eq!(ordinal("web", "web-1-0"), None, "another set's");
}

#[test]
fn an_ordered_set_creates_each_pod_when_those_before_it_are_available() {
    for (present, expected) in [
        ("", "+0"),
        ("0: pending", ""),
        ("0: unready", ""),
        ("0: going", ""),
        ("0: fresh", ""),
        ("0: ok", "+1"),
        ("0: ok, 1: ok", "+2"),
        ("0: ok, 1: ok, 2: ok", ""),
        ("1: ok, 2: ok", "+0"),
        ("0: unready, 2: ok", ""),
        ("0: failed", "-web-0"),
        ("0: succeeded", "-web-0"),
        ("0: failed going", ""),
        ("0: ok, 1: failed", "-web-1"),
    ] {
        let set = set(3, |set| set.value.min_ready = 30);
        assert_eq!(shown(&planned(&set, &pods(present))), expected, "{present:?}");
    }
}

#[test]
fn a_pod_is_not_made_while_the_former_one_of_its_ordinal_is_there() {
    for parallel in [false, true] {
        let set = set(2, |set| set.value.parallel = parallel);
        for former in ["going", "failed going", "pending going", "old going"] {
            let plan = planned(&set, &pods(&format!("0: {former}, 1: ok")));
            assert_eq!(shown(&plan), "", "{former}");
        }
    }
}

#[test]
fn a_parallel_set_creates_and_deletes_all_at_once() {
    let parallel = |replicas| set(replicas, |set| set.value.parallel = true);
    for (replicas, present, expected) in [
        (3, "", "+0 +1 +2"),
        (3, "0: pending, 2: unready", "+1"),
        (3, "0: failed, 1: going", "-web-0 +2"),
        (1, "0: unready, 1: ok, 2: pending, 3: going", "-web-2 -web-1"),
        (0, "0: ok, 1: unready", "-web-1 -web-0"),
        (2, "0: ok, 3: ok", "+1 | -web-3"),
    ] {
        assert_eq!(shown(&planned(&parallel(replicas), &pods(present))), expected, "{replicas} of {present:?}");
    }
    let many = planned(&parallel(i64::from(i32::MAX)), &[]);
    let sizes = |plan: &Plan| plan.stages.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&many), [BURST]);
    let surplus: Vec<_> = (0..=BURST).map(|ordinal| pod(&format!("web-{ordinal}"), |_| {})).collect();
    assert_eq!(sizes(&planned(&parallel(0), &surplus)), [BURST]);
}

#[test]
fn an_ordered_set_deletes_the_highest_pod_first_and_one_at_a_time() {
    for (present, expected) in [
        ("0: ok, 1: ok, 2: ok", "-web-2"),
        ("0: ok, 1: ok, 2: going", ""),
        ("0: ok, 1: ok, 2: unready", "-web-2"),
        ("0: ok, 1: unready, 2: ok", "-web-2"),
        ("0: ok, 1: unready, 2: unready", ""),
        ("0: ok, 1: going, 2: unready", ""),
        ("0: ok, 1: unready", "-web-1"),
        ("0: ok, 1: fresh", "-web-1"),
        ("0: unready, 1: ok", ""),
        ("1: ok, 2: ok", "+0"),
    ] {
        let set = set(1, |set| set.value.min_ready = 30);
        assert_eq!(shown(&planned(&set, &pods(present))), expected, "{present:?}");
    }
}

#[test]
fn ordinals_begin_at_their_start() {
    let five = |replicas| set(replicas, |set| set.value.start = 5);
    for (replicas, present, expected) in [
        (2, "", "+5"),
        (2, "5: ok", "+6"),
        (2, "5: ok, 6: ok", ""),
        (2, "0: ok, 5: ok, 6: ok, 7: ok", "-web-7"),
        (2, "0: ok, 5: ok, 6: ok", "-web-0"),
    ] {
        assert_eq!(shown(&planned(&five(replicas), &pods(present))), expected, "{replicas} of {present:?}");
    }
}

#[test]
fn a_set_that_is_being_deleted_only_counts() {
    let mut going = set(2, |_| {});
    going.meta.deletion = Some(NOW);
    let plan = planned(&going, &pods("1: ok, 5: ok"));
    assert_eq!((shown(&plan).as_str(), plan.status.replicas), ("", 2));
}

#[test]
fn a_pod_gets_the_label_of_its_name_again() {
    let unnamed = pod("web-0", |pod| pod.meta.labels = [("controller-revision-hash".into(), "web-new".into())].into());
    let set = set(2, |_| {});
    assert_eq!(shown(&planned(&set, &[unnamed])), "repair-0(labels) | +1");
}

#[test]
fn the_status_counts_by_state_and_by_revision() {
    let set = set(9, |set| set.value.min_ready = 30);
    let plan =
        planned(&set, &pods("0: ok, 1: old, 2: fresh, 3: unready old, 4: pending, 5: going, 6: failed, 7: older"));
    let status = &plan.status;
    assert_eq!((status.replicas, status.ready, status.available), (8, 5, 4));
    assert_eq!((status.current, status.updated, status.observed), (2, 4, 3));
    assert_eq!((status.current_revision.as_str(), status.update_revision.as_str()), ("web-old", "web-new"));
    assert_eq!(status.collisions, Some(0));
    assert_eq!(plan.again.map(|again| again.as_secs()), Some(20), "then the pod of ordinal 2 is available");
}

#[test]
fn an_update_is_complete_when_all_pods_are_updated_and_ready() {
    for (replicas, ready, updated, expected) in
        [(3, 3, 3, "web-new"), (3, 2, 3, "web-old"), (3, 3, 2, "web-old"), (4, 3, 3, "web-old")]
    {
        let mut status = StatefulSetState {
            replicas,
            ready,
            updated,
            current: 1,
            current_revision: "web-old".into(),
            update_revision: "web-new".into(),
            ..StatefulSetState::default()
        };
        complete(&mut status, &set(3, |_| {}).value);
        assert_eq!(status.current_revision, expected);
        assert_eq!(status.current, if expected == "web-new" { 3 } else { 1 });
        status.current_revision = "web-old".into();
        complete(&mut status, &set(3, |set| set.value.replacement = Replacement::OnDelete).value);
        assert_eq!(status.current_revision, "web-old", "nobody knows when an update by hand is complete");
    }
}

#[test]
fn a_status_is_written_when_a_count_a_revision_or_the_generation_changed() {
    let old = StatefulSetState { observed: 2, replicas: 1, collisions: None, ..StatefulSetState::default() };
    let changed = |change: &dyn Fn(&mut StatefulSetState)| {
        let mut new = old.clone();
        change(&mut new);
        differs(&old, &new)
    };
    assert!(!changed(&|_| {}) && !changed(&|new| new.collisions = Some(0)) && !changed(&|new| new.observed = 1));
    assert!(changed(&|new| new.observed = 3) && changed(&|new| new.ready = 1));
    assert!(changed(&|new| new.update_revision = "web-new".into()));
}

#[test]
fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
    let set = set(2, |set| set.value.min_ready = 30);
    for (since, expected) in [(9_970, "+1"), (9_971, "")] {
        let first = pod("web-0", |pod| pod.value.ready_since = Some(Time::from_unix(since)));
        assert_eq!(shown(&planned(&set, &[first])), expected);
    }
}
