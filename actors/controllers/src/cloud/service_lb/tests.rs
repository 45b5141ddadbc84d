use std::sync::Arc;

use oarlock_cloud::wire::{Ingress, LoadBalancerSpec, Node};
use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Revision, Time, Uid};

use super::plan::*;
use crate::project::{BalancedService, CloudNode, Taint};

const NOW: Revision = Revision(7);

fn wants() -> Box<LoadBalancerSpec> {
    Box::new(LoadBalancerSpec { external_traffic_policy: "Cluster".into(), ..LoadBalancerSpec::default() })
}

/// A Service of type LoadBalancer whose load balancer is complete.
fn service() -> Item<BalancedService> {
    let meta = ObjMeta {
        key: Key::new("ns", "web"),
        uid: Uid::from("u1"),
        finalizers: Box::new([FINALIZER.into()]),
        ..ObjMeta::default()
    };
    Item { meta, value: BalancedService { balanced: true, wants: Some(wants()), ingress: reached() } }
}

fn reached() -> Vec<Ingress> {
    ingress(vec![Ingress { ip: "192.0.2.1".into(), ..Ingress::default() }])
}

fn nodes(names: &[&str]) -> Nodes {
    Arc::new(names.iter().map(|name| Node { name: (*name).into(), ..Node::default() }).collect())
}

fn done() -> Done {
    Done { uid: Uid::from("u1"), epoch: NOW, wants: wants(), nodes: nodes(&["a"]), ingress: reached() }
}

fn going(mut service: Item<BalancedService>) -> Item<BalancedService> {
    service.meta.deletion = Some(Time::from_unix(1));
    service
}

#[test]
fn it_is_guarded_then_made_then_told_of_and_then_nothing_is_done() {
    let (two, mut new) = (nodes(&["a"]), service());
    new.meta.finalizers = Box::default();
    new.value.ingress = Vec::new();
    assert_eq!(step(&new, &two, None, NOW), Step::Guard);
    new.meta.finalizers = Box::new([FINALIZER.into()]);
    assert_eq!(step(&new, &two, None, NOW), Step::Ensure(&wants()));
    assert_eq!(step(&new, &two, Some(&done()), NOW), Step::Publish(reached()));
    assert_eq!(step(&service(), &two, Some(&done()), NOW), Step::Nothing);
}

#[test]
fn what_it_wants_who_it_is_and_who_holds_the_unit_decide_whether_it_is_made_again() {
    let one = nodes(&["a"]);
    let mut other = service();
    other.value.wants = Some(Box::new(LoadBalancerSpec { load_balancer_ip: "192.0.2.9".into(), ..*wants() }));
    assert!(matches!(step(&other, &one, Some(&done()), NOW), Step::Ensure(_)));
    let anew = Done { uid: Uid::from("u0"), ..done() };
    assert_eq!(step(&service(), &one, Some(&anew), NOW), Step::Ensure(&wants()));
    // Another process may have held the unit in between and changed the load balancer.
    assert_eq!(step(&service(), &one, Some(&done()), Revision(9)), Step::Ensure(&wants()));
}

#[test]
fn other_nodes_are_an_update() {
    assert_eq!(step(&service(), &nodes(&["a", "b"]), Some(&done()), NOW), Step::Update(&done()));
    assert_eq!(step(&service(), &nodes(&[]), Some(&done()), NOW), Step::Update(&done()));
}

#[test]
fn who_goes_or_wants_none_any_more_is_cleaned_up_after_if_it_ever_had_one() {
    let one = nodes(&["a"]);
    assert_eq!(step(&going(service()), &one, Some(&done()), NOW), Step::Delete);
    let mut inside = service();
    inside.value = BalancedService::default();
    assert_eq!(step(&inside, &one, None, NOW), Step::Delete);
    inside.meta.finalizers = Box::default();
    assert_eq!(step(&inside, &one, None, NOW), Step::Nothing);
    let mut bare = going(service());
    bare.meta.finalizers = Box::default();
    assert_eq!(step(&bare, &one, None, NOW), Step::Nothing);
}

#[test]
fn another_class_is_left_alone() {
    let mut others = service();
    others.meta.finalizers = Box::default();
    others.value.wants = None;
    assert_eq!(step(&others, &nodes(&["a"]), None, NOW), Step::Nothing);
    // The finalizer may be of any client.
    others.meta.finalizers = Box::new([FINALIZER.into()]);
    assert_eq!(step(&others, &nodes(&["a"]), None, NOW), Step::Nothing);
}

#[test]
fn nodes_are_led_to_unless_they_are_excluded_or_on_their_way_out() {
    let item = |label: &str, taints: &[&str], deletion: Option<i64>| {
        let taint = |key: &str| Taint { key: key.into(), value: "".into(), effect: "NoSchedule".into(), added: None };
        let taints = taints.iter().map(|key| taint(key)).collect();
        let meta = ObjMeta {
            key: Key::cluster("n"),
            labels: Box::new([(label.into(), "".into())]),
            deletion: deletion.map(Time::from_unix),
            ..ObjMeta::default()
        };
        Item { meta, value: CloudNode { provider_id: "x://1".into(), taints, ..CloudNode::default() } }
    };
    let led = node(&item("a", &["node.kubernetes.io/not-ready"], None)).unwrap();
    assert_eq!((led.name.as_str(), led.provider_id.as_str()), ("n", "x://1"));
    for left_out in [
        item("node.kubernetes.io/exclude-from-external-load-balancers", &[], None),
        item("a", &["ToBeDeletedByClusterAutoscaler"], None),
        item("a", &[], Some(1)),
    ] {
        assert_eq!(node(&left_out), None);
    }
}

#[test]
fn an_address_is_a_vip_unless_the_provider_says_otherwise_and_a_name_is_neither() {
    let one = |ip: &str, hostname: &str, mode: &str| Ingress {
        ip: ip.into(),
        hostname: hostname.into(),
        ip_mode: mode.into(),
    };
    let said = vec![one("192.0.2.1", "", ""), one("192.0.2.2", "", "Proxy"), one("", "lb.example.org", "VIP")];
    let modes: Vec<_> = ingress(said).into_iter().map(|one| one.ip_mode).collect();
    assert_eq!(modes, ["VIP", "Proxy", ""]);
}
