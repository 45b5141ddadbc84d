//! The plan over tables.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::Uid;
use oarlock_schema::{Str, Value};

use super::plan::{Wanted, plan};
use crate::project::{EndpointsView, Phase, PodView, ServicePort, ServiceView, TargetPort};

fn service() -> Item<ServiceView> {
    let port =
        ServicePort { name: "".into(), protocol: "TCP".into(), app_protocol: None, target: TargetPort::Number(80) };
    let value = ServiceView { ports: Box::new([port]), ..ServiceView::default() };
    Item { meta: ObjMeta { key: Key::new("ns", "web"), ..ObjMeta::default() }, value }
}

fn pod(number: usize, ready: bool) -> Arc<Item<PodView>> {
    let ips = Box::new([Str::from(format!("10.0.{}.{}", number / 250, number % 250))]);
    let value = PodView { phase: Phase::Running, ready, ips, ..PodView::default() };
    let name = format!("p{number:04}");
    Arc::new(Item {
        meta: ObjMeta { key: Key::new("ns", name.as_str()), uid: Uid::from(name), ..ObjMeta::default() },
        value,
    })
}

fn count(wanted: &Wanted, list: &str) -> usize {
    wanted.subsets.iter().map(|subset| subset.get(list).map_or(0, |list: &Value| list.items().len())).sum()
}

#[test]
fn ready_and_other_addresses_are_told_apart_unless_all_are_published() {
    let pods = [pod(1, true), pod(2, false)];
    let apart = plan(&service(), &pods);
    assert_eq!((count(&apart, "addresses"), count(&apart, "notReadyAddresses")), (1, 1));
    let mut all = service();
    all.value.publish_not_ready = true;
    let published = plan(&all, &pods);
    assert_eq!((count(&published, "addresses"), count(&published, "notReadyAddresses")), (2, 0));
}

#[test]
fn a_pod_on_its_way_out_is_left_out() {
    let going = pod(1, true);
    let mut item = (*going).clone();
    item.meta.deletion = Some(oarlock_meta::Time::from_unix(1));
    assert!(plan(&service(), &[Arc::new(item)]).subsets.is_empty());
}

#[test]
fn beyond_a_thousand_the_unready_are_dropped_first_and_it_is_said() {
    let pods: Vec<_> = (0..1100).map(|number| pod(number, number % 11 != 0)).collect();
    let wanted = plan(&service(), &pods);
    assert!(wanted.truncated);
    assert_eq!((count(&wanted, "addresses"), count(&wanted, "notReadyAddresses")), (1000, 0));
}

#[test]
fn an_object_that_says_so_already_stands() {
    let wanted = plan(&service(), &[pod(1, true)]);
    let labels = wanted.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let meta = ObjMeta { key: Key::new("ns", "web"), labels, ..ObjMeta::default() };
    let mut there = Item { meta, value: EndpointsView { subsets: wanted.subsets.clone() } };
    assert!(wanted.stands(&there));
    there.meta.labels = Box::default();
    assert!(!wanted.stands(&there));
}
