//! Table tests of conditions, taints and eviction rates.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::Time;
use oarlock_runtime::clock;

use super::known::Known;
use super::plan::{adds_eviction, silent, stale_pods, taints, without_eviction};
use super::settings::NodeLifecycleSettings;
use super::signs::Signs;
use super::zones::{Paces, all, zone};
use crate::project::{NodeCondition, NodeView, PodView, Taint};

const NOW: Time = Time::from_unix(100);

fn node(conditions: &[(&str, &str)]) -> NodeView {
    let one = |(kind, status): &(&str, &str)| NodeCondition { kind: (*kind).into(), status: (*status).into() };
    NodeView { conditions: conditions.iter().map(one).collect(), ..NodeView::default() }
}

fn taint(key: &str, effect: &str, added: i64) -> Taint {
    Taint { key: key.into(), value: "".into(), effect: effect.into(), added: Some(Time::from_unix(added)) }
}

fn keys(taints: &[Taint]) -> Vec<String> {
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect))
        .collect()
}

#[test]
fn conditions_and_cordons_become_taints() {
    for (conditions, cordoned, expected) in [
        (vec![("Ready", "True")], false, vec![]),
        (vec![("Ready", "False")], false, vec!["not-ready:NoSchedule", "not-ready:NoExecute"]),
        (vec![("Ready", "Unknown")], false, vec!["unreachable:NoSchedule", "unreachable:NoExecute"]),
        (
            vec![("Ready", "True"), ("DiskPressure", "True"), ("PIDPressure", "False")],
            false,
            vec!["disk-pressure:NoSchedule"],
        ),
        (vec![("Ready", "True")], true, vec!["unschedulable:NoSchedule"]),
    ] {
        let mut view = node(&conditions);
        view.unschedulable = cordoned;
        assert_eq!(keys(&taints(&view, true, NOW)), expected, "{conditions:?}");
    }
}

#[test]
fn taints_of_others_stay_and_ours_keep_their_time() {
    let mut view = node(&[("Ready", "Unknown")]);
    view.taints = Box::new([
        taint("gpu", "NoExecute", 1),
        taint("node.kubernetes.io/unreachable", "NoExecute", 2),
        taint("node.kubernetes.io/not-ready", "NoSchedule", 3),
    ]);
    let wanted = taints(&view, true, NOW);
    assert_eq!(keys(&wanted), ["gpu:NoExecute", "unreachable:NoExecute", "unreachable:NoSchedule"]);
    assert_eq!(wanted[1].added, Some(Time::from_unix(2)));
    assert!(!adds_eviction(&view, &wanted));
}

#[test]
fn a_new_node_keeps_the_taint_of_admission_until_it_speaks() {
    let mut view = node(&[]);
    view.taints = Box::new([taint("node.kubernetes.io/not-ready", "NoSchedule", 1)]);
    assert_eq!(taints(&view, true, NOW), view.taints);
    assert!(silent(&view));
    view.conditions = node(&[("Ready", "True")]).conditions;
    assert!(taints(&view, true, NOW).is_empty());
}

#[test]
fn eviction_can_be_held_back_without_the_rest() {
    let view = node(&[("Ready", "False")]);
    let wanted = taints(&view, true, NOW);
    assert!(adds_eviction(&view, &wanted));
    assert_eq!(keys(&without_eviction(&view, wanted)), ["not-ready:NoSchedule"]);
    assert_eq!(keys(&taints(&view, false, NOW)), ["not-ready:NoSchedule"]);
}

fn nodes(ready: usize, lost: usize) -> Vec<Arc<Item<NodeView>>> {
    let one = |at: usize| {
        let meta = ObjMeta { key: Key::cluster(format!("n{at}")), ..ObjMeta::default() };
        Arc::new(Item { meta, value: node(&[("Ready", if at < ready { "True" } else { "Unknown" })]) })
    };
    (0..ready + lost).map(one).collect()
}

#[test]
fn the_more_fails_the_slower_nodes_are_emptied_and_never_all() {
    for (ready, lost, expected) in
        [(9, 1, Some(10)), (1, 2, Some(10)), (2, 3, None), (40, 60, Some(100)), (0, 3, None), (0, 0, None)]
    {
        let pause = pause(ready, lost, &NodeLifecycleSettings::default());
        assert_eq!(pause, expected.map(Duration::from_secs), "{ready} ready, {lost} lost");
    }
}

fn pause(ready: usize, lost: usize, settings: &NodeLifecycleSettings) -> Option<Duration> {
    all(&nodes(ready, lost)).pause(&zone(&ObjMeta::default()), settings)
}

#[test]
fn rates_and_thresholds_are_settings() {
    let defaults = NodeLifecycleSettings::default;
    for (ready, lost, settings, expected) in [
        (9, 1, NodeLifecycleSettings { node_eviction_rate: 2.0, ..defaults() }, Some(Duration::from_millis(500))),
        (9, 1, NodeLifecycleSettings { node_eviction_rate: 0.0, ..defaults() }, None),
        (2, 3, NodeLifecycleSettings { unhealthy_zone_threshold: 0.7, ..defaults() }, Some(Duration::from_secs(10))),
        (2, 3, NodeLifecycleSettings { large_cluster_size_threshold: 4, ..defaults() }, Some(Duration::from_secs(100))),
        (40, 60, NodeLifecycleSettings { secondary_node_eviction_rate: 0.0, ..defaults() }, None),
    ] {
        assert_eq!(pause(ready, lost, &settings), expected, "{ready} ready, {lost} lost, {settings:?}");
    }
    let settings = NodeLifecycleSettings {
        node_monitor_grace_period: Duration::from_secs(7),
        node_startup_grace_period: Duration::from_secs(9),
        ..defaults()
    };
    assert_eq!((settings.grace(true), settings.grace(false)), (Duration::from_secs(7), Duration::from_secs(9)));
}

#[test]
fn zones_take_turns() {
    let (paces, now) = (Paces::default(), clock::now());
    let rate = Some(Duration::from_secs(10));
    assert_eq!(paces.take("a", rate, now), Ok(()));
    assert_eq!(paces.take("a", rate, now), Err(Duration::from_secs(10)));
    assert_eq!(paces.take("b", rate, now), Ok(()));
    assert_eq!(paces.take("a", rate, now + Duration::from_secs(10)), Ok(()));
    assert!(paces.take("c", None, now).is_err());
}

#[test]
fn only_a_changed_lease_or_heartbeat_is_a_sign_of_life() {
    let (signs, start) = (Signs::default(), clock::now());
    let later = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(signs.heartbeat("n", None, start), start);
    signs.lease("n", &"t1".into(), later(10));
    assert_eq!(signs.heartbeat("n", None, later(15)), later(10));
    signs.lease("n", &"t1".into(), later(20));
    assert_eq!(signs.heartbeat("n", None, later(25)), later(10), "the same lease says nothing");
    assert_eq!(signs.heartbeat("n", Some(NOW), later(30)), later(30));
}

#[test]
fn pods_are_stale_that_were_ready_before_their_node_stopped_being_so() {
    let mut view = node(&[("Ready", "False")]);
    view.transition = Some(NOW);
    let pod = |name: &str, ready: bool, since: i64| {
        let value = PodView { ready, ready_since: Some(Time::from_unix(since)), ..PodView::default() };
        Arc::new(Item { meta: ObjMeta { key: Key::new("ns", name), ..ObjMeta::default() }, value })
    };
    let pods = [pod("before", true, 50), pod("after", true, 150), pod("unready", false, 50)];
    let names: Vec<&str> = stale_pods(&view, &pods).map(|pod| pod.meta.name()).collect();
    assert_eq!(names, ["before"]);
}

#[test]
fn a_node_is_told_of_when_it_comes_and_when_it_goes_and_not_in_between() {
    let meta = ObjMeta { key: Key::cluster("n"), uid: oarlock_meta::Uid::from("u"), ..ObjMeta::default() };
    let (known, node) = (Known::default(), Item { meta, value: NodeView::default() });
    assert!(known.forget("n").is_none());
    assert!(known.add(&node) && !known.add(&node));
    assert_eq!(known.forget("n").map(|uid| uid.0), Some("u".into()));
    assert!(known.forget("n").is_none() && known.add(&node));
}
