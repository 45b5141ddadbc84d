//! Table tests of the plan of a ReplicaSet.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Status, Time, Uid};

use super::plan::{BURST, plan};
use super::rank::Related;
use crate::project::{Phase, PodView, ReplicaSet};

const NOW: Time = Time::from_unix(10_000);

fn set(replicas: i64) -> Item<ReplicaSet> {
    let value =
        ReplicaSet { replicas, template_labels: Box::new([("app".into(), "web".into())]), ..ReplicaSet::default() };
    Item { meta: ObjMeta { key: Key::new("ns", "web"), generation: 3, ..ObjMeta::default() }, value }
}

fn pod(name: &str, change: impl FnOnce(&mut Item<PodView>)) -> Arc<Item<PodView>> {
    let value = PodView {
        node: "n1".into(),
        phase: Phase::Running,
        ready: true,
        ready_since: Some(Time::from_unix(1_000)),
        ..PodView::default()
    };
    let meta = ObjMeta {
        key: Key::new("ns", name),
        uid: Uid::from(name),
        created: Some(Time::from_unix(900)),
        labels: Box::new([("app".into(), "web".into())]),
        ..ObjMeta::default()
    };
    let mut item = Item { meta, value };
    change(&mut item);
    Arc::new(item)
}

#[test]
fn creates_what_is_missing_in_bursts_and_counts_only_active_pods() {
    let pods = [
        pod("a", |_| {}),
        pod("b", |pod| pod.value.phase = Phase::Failed),
        pod("c", |pod| pod.meta.deletion = Some(NOW)),
    ];
    assert_eq!(plan(&set(3), &pods, NOW, Related::new).create, 2);
    assert_eq!(plan(&set(5000), &pods, NOW, Related::new).create, BURST);
    assert_eq!(plan(&set(1), &pods, NOW, Related::new).create, 0);
}

#[test]
fn a_set_that_is_going_neither_creates_nor_deletes() {
    let mut going = set(0);
    going.meta.deletion = Some(NOW);
    let plan = plan(&going, &[pod("a", |_| {})], NOW, Related::new);
    assert!(plan.create == 0 && plan.delete.is_empty());
}

#[test]
fn deletes_the_pods_that_are_missed_least_first() {
    let pods = [
        pod("old", |_| {}),
        pod("unassigned", |pod| {
            pod.value.node = "".into();
            pod.value.phase = Phase::Pending;
            pod.value.ready = false;
        }),
        pod("pending", |pod| {
            pod.value.phase = Phase::Pending;
            pod.value.ready = false;
        }),
        pod("unready", |pod| pod.value.ready = false),
        pod("cheap", |pod| pod.value.deletion_cost = -5),
        pod("crowded", |pod| pod.value.node = "n2".into()),
        pod("fresh", |pod| pod.value.ready_since = Some(Time::from_unix(9_990))),
        pod("restarted", |pod| pod.value.restarts = 4),
    ];
    let related = || Related::from([("n1".into(), 1), ("n2".into(), 3)]);
    let expected = ["unassigned", "pending", "unready", "cheap", "crowded", "fresh", "restarted"];
    for kept in 1..=7_usize {
        let wanted = set(i64::try_from(kept).unwrap());
        let plan = plan(&wanted, &pods, NOW, related);
        let names: Vec<&str> = plan.delete.iter().map(|pod| pod.meta.name()).collect();
        assert_eq!(names, expected[..8 - kept], "keeping {kept}");
    }
}

#[test]
fn counts_labels_readiness_availability_and_terminating_pods() {
    let mut wanted = set(4);
    wanted.value.min_ready = 30;
    let pods = [
        pod("available", |_| {}),
        pod("fresh", |pod| pod.value.ready_since = Some(Time::from_unix(9_990))),
        pod("bare", |pod| pod.meta.labels = Box::default()),
        pod("unready", |pod| pod.value.ready = false),
        pod("going", |pod| pod.meta.deletion = Some(NOW)),
    ];
    let plan = plan(&wanted, &pods, NOW, Related::new);
    let status = &plan.status;
    assert_eq!((status.replicas, status.fully_labeled, status.ready, status.available), (4, 3, 3, 2));
    assert_eq!((status.terminating, status.observed), (Some(1), 3));
    assert_eq!(plan.again.unwrap().as_secs(), 20, "the fresh pod becomes available then");
}

#[test]
fn a_failure_is_a_condition_until_it_is_over() {
    let mut wanted = set(1);
    let mut first = plan(&wanted, &[], NOW, Related::new);
    first.fail(&wanted.value, Some(&Status::internal_error("no")), NOW);
    let [condition] = first.status.conditions.as_slice() else { panic!("{:?}", first.status.conditions) };
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), ("ReplicaFailure", "FailedCreate"));
    wanted.value.status = first.status;
    let mut second = plan(&wanted, &[], NOW, Related::new);
    second.fail(&wanted.value, None, NOW);
    assert!(second.status.conditions.is_empty());
}
