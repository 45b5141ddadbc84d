//! Table tests of the plan of Endpoints.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::Uid;
use oarlock_schema::{Str, Value};

use super::address::{Address, Reached};
use super::order::{Subset, dump, sort};
use super::plan::{Wanted, plan};
use crate::project::{EndpointsView, Phase, PodView, Port, ServicePort, ServiceView, TargetPort};

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

fn reached(name: &str, number: i64, app_protocol: Option<&str>) -> Reached {
    Reached { name: name.into(), number, protocol: "TCP".into(), app_protocol: app_protocol.map(Str::from) }
}

#[test]
fn a_subset_is_dumped_as_go_does() {
    let meta = ObjMeta { key: Key::new("ns", "p"), uid: Uid::from("u"), ..ObjMeta::default() };
    let pod = Arc::new(Item { meta, value: PodView::default() });
    let address =
        Address { ip: "10.0.0.1".into(), hostname: Some("h".into()), node: Some("n1".into()), pod: pod.clone() };
    let subset = Subset { ports: vec![reached("web", 80, None)], ready: vec![&address], unready: Vec::new() };
    // As go-spew 1.1.1 printed it.
    let expected = "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)[{IP:(string)10.0.0.1 Hostname:(string)h NodeName:(*string)n1 \
        TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string)ns Name:(string)p UID:(types.UID)u APIVersion:(string) \
        ResourceVersion:(string) FieldPath:(string)}}] NotReadyAddresses:([]v1.EndpointAddress)<nil> \
        Ports:([]v1.EndpointPort)[{Name:(string)web Port:(int32)80 Protocol:(v1.Protocol)TCP AppProtocol:(*string)<nil>}]}";
    assert_eq!(dump(&subset), expected);
}

#[test]
fn ports_are_in_the_order_of_their_digests() {
    // Digests that Go found: 4e91… for web, 8de7… for b"q, 48e4… for the nameless one.
    let ports = vec![reached("web", 80, None), reached("b\"q", 443, Some("http")), reached("", 443, Some("http"))];
    let mut subsets = [Subset { ports, ready: Vec::new(), unready: Vec::new() }];
    sort(&mut subsets);
    let names: Vec<&str> = subsets[0].ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["", "web", "b\"q"]);
}

#[test]
fn ports_that_lead_to_the_same_pods_share_a_subset() {
    let port =
        |name: &str, target| ServicePort { name: name.into(), protocol: "TCP".into(), app_protocol: None, target };
    let mut service = service();
    service.value.ports =
        Box::new([port("http", TargetPort::Name("http".into())), port("metrics", TargetPort::Number(9100))]);
    let named = |number: usize, at: i64| {
        let mut item = (*pod(number, true)).clone();
        item.value.ports = Box::new([Port { name: "http".into(), protocol: "TCP".into(), number: at }]);
        Arc::new(item)
    };
    let shape = |pods: &[Arc<Item<PodView>>]| {
        let numbers = |subset: &Value| -> Vec<i64> {
            let ports = subset.get("ports").map_or(&[][..], Value::items);
            ports.iter().filter_map(|port| port.get("port")?.as_int()).collect()
        };
        let addresses = |subset: &Value| subset.get("addresses").map_or(0, |list| list.items().len());
        let wanted = plan(&service, pods);
        let mut shape: Vec<_> = wanted
            .subsets
            .iter()
            .map(|subset| {
                let mut ports = numbers(subset);
                ports.sort_unstable();
                (ports, addresses(subset))
            })
            .collect();
        shape.sort();
        shape
    };
    assert_eq!(shape(&[named(1, 80), named(2, 80)]), [(vec![80, 9100], 2)]);
    assert_eq!(shape(&[named(1, 80), named(2, 81)]), [(vec![80], 1), (vec![81], 1), (vec![9100], 2)]);
}
