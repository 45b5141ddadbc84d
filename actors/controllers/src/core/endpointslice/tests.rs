//! Table tests of the plan of EndpointSlices.

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Time, Uid};
use oarlock_schema::{Str, Value};

use super::plan::{Plan, Wanted, plan};
use crate::project::{Phase, PodView, Port, Prefers, ServicePort, ServiceView, SliceView, TargetPort};

/// The most endpoints of one slice.
const MAX: usize = 100;

fn service() -> Item<ServiceView> {
    let port = ServicePort {
        name: "http".into(),
        protocol: "TCP".into(),
        app_protocol: None,
        target: TargetPort::Name("web".into()),
    };
    let value = ServiceView {
        selector: Some(Box::new([("app".into(), "web".into())])),
        families: Box::new(["IPv4".into()]),
        ports: Box::new([port]),
        ..ServiceView::default()
    };
    Item { meta: ObjMeta { key: Key::new("ns", "web"), uid: Uid::from("svc"), ..ObjMeta::default() }, value }
}

fn pod(number: usize, change: impl FnOnce(&mut Item<PodView>)) -> Arc<Item<PodView>> {
    let value = PodView {
        node: "n1".into(),
        phase: Phase::Running,
        ready: true,
        ips: Box::new([Str::from(format!("10.0.{}.{}", number / 250, number % 250))]),
        ports: Box::new([Port { name: "web".into(), protocol: "TCP".into(), number: 8080 }]),
        ..PodView::default()
    };
    let name = format!("p{number:04}");
    let meta = ObjMeta { key: Key::new("ns", name.as_str()), uid: Uid::from(name), ..ObjMeta::default() };
    let mut item = Item { meta, value };
    change(&mut item);
    Arc::new(item)
}

fn decide(pods: &[Arc<Item<PodView>>], slices: &[Arc<Item<SliceView>>]) -> Plan {
    plan(&service(), pods, slices, &|_| Some("z1".into()), MAX)
}

/// Returns the slice that a write would create.
fn written(name: &str, wanted: &Wanted) -> Arc<Item<SliceView>> {
    let labels = wanted.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let meta = ObjMeta { key: Key::new("ns", name), uid: Uid::from(name), labels, ..ObjMeta::default() };
    let value =
        SliceView { family: wanted.family.clone(), endpoints: wanted.endpoints.clone(), ports: wanted.ports.clone() };
    Arc::new(Item { meta, value })
}

fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    value.at(path).unwrap_or(&Value::Null)
}

#[test]
fn conditions_follow_readiness_and_termination() {
    // (ready, deleting, publish) → (ready, serving, terminating)
    for ((ready, deleting, publish), expected) in [
        ((true, false, false), [true, true, false]),
        ((false, false, false), [false, false, false]),
        ((true, true, false), [false, true, true]),
        ((false, false, true), [true, false, false]),
        ((true, true, true), [true, true, true]),
    ] {
        let mut service = service();
        service.value.publish_not_ready = publish;
        let pod = pod(1, |pod| {
            pod.value.ready = ready;
            pod.meta.deletion = deleting.then(|| Time::from_unix(1));
        });
        let plan = plan(&service, &[pod], &[], &|_| None, MAX);
        let conditions = at(&plan.write[0].endpoints[0], &["conditions"]);
        let seen = ["ready", "serving", "terminating"].map(|name| at(conditions, &[name]).as_bool().unwrap());
        assert_eq!(seen, expected, "{ready} {deleting} {publish}");
    }
}

#[test]
fn endpoints_name_their_pod_node_zone_and_port() {
    let pod = pod(1, |pod| {
        pod.value.hostname = "a".into();
        pod.value.subdomain = "web".into();
    });
    let plan = decide(&[pod], &[]);
    let [slice] = plan.write.as_slice() else { panic!("{plan:?}") };
    let endpoint = &slice.endpoints[0];
    assert_eq!(at(endpoint, &["addresses"]).items(), [Value::from("10.0.0.1")]);
    assert_eq!(at(endpoint, &["targetRef", "name"]).as_str(), Some("p0001"));
    assert_eq!(at(endpoint, &["nodeName"]).as_str(), Some("n1"));
    assert_eq!(at(endpoint, &["zone"]).as_str(), Some("z1"));
    assert_eq!(at(endpoint, &["hostname"]).as_str(), Some("a"));
    assert_eq!(at(&slice.ports[0], &["port"]).as_int(), Some(8080));
    assert_eq!(slice.labels.get("kubernetes.io/service-name").map(Str::as_str), Some("web"));
    assert_eq!(
        slice.labels.get("endpointslice.kubernetes.io/managed-by").map(Str::as_str),
        Some("endpointslice-controller.k8s.io")
    );
}

#[test]
fn ended_pods_and_pods_without_an_address_are_left_out_and_one_empty_slice_remains() {
    let pods = [pod(1, |pod| pod.value.phase = Phase::Succeeded), pod(2, |pod| pod.value.ips = Box::default())];
    let plan = decide(&pods, &[]);
    let [slice] = plan.write.as_slice() else { panic!("{plan:?}") };
    assert!(slice.endpoints.is_empty());
    let again = decide(&pods, &[written("web-1", slice)]);
    assert!(again.write.is_empty() && again.delete.is_empty());
}

#[test]
fn slices_hold_a_hundred_and_keep_their_endpoints() {
    let mut pods: Vec<_> = (0..250).map(|number| pod(number, |_| {})).collect();
    let plan = decide(&pods, &[]);
    let sizes: Vec<_> = plan.write.iter().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(sizes, [MAX, MAX, 50]);
    let slices: Vec<_> =
        plan.write.iter().enumerate().map(|(at, slice)| written(&format!("web-{at}"), slice)).collect();
    assert!(decide(&pods, &slices).write.is_empty(), "nothing changed");
    pods[3] = pod(3, |pod| pod.value.ready = false);
    let one = decide(&pods, &slices);
    assert_eq!(one.write.len(), 1, "one slice is touched");
    pods.remove(120);
    pods[3] = pod(3, |_| {});
    pods.push(pod(400, |_| {}));
    let swapped = decide(&pods, &slices);
    assert_eq!(swapped.write.len(), 1, "the new one takes the place of the old one");
    pods.truncate(90);
    let fewer = decide(&pods, &slices);
    assert_eq!(fewer.delete.len(), 2);
}

#[test]
fn pods_with_other_numbers_for_a_named_port_get_slices_of_their_own() {
    let other =
        pod(2, |pod| pod.value.ports = Box::new([Port { name: "web".into(), protocol: "TCP".into(), number: 9090 }]));
    let plan = decide(&[pod(1, |_| {}), other], &[]);
    let mut ports: Vec<_> = plan.write.iter().map(|slice| at(&slice.ports[0], &["port"]).as_int().unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
}

#[test]
fn ready_endpoints_say_for_whom_they_are_meant_first() {
    let pods = [pod(1, |_| {}), pod(2, |pod| pod.value.ready = false), pod(3, |pod| pod.value.node = "".into())];
    let hints = |prefers| {
        let mut service = service();
        service.value.prefers = prefers;
        let plan = plan(&service, &pods, &[], &|_| Some("z1".into()), MAX);
        let [slice] = plan.write.as_slice() else { panic!("{plan:?}") };
        let names = |endpoint: &Value, list: &str| -> Vec<String> {
            let list = at(endpoint, &["hints", list]).items().iter();
            list.filter_map(|one| one.get("name")?.as_str()).map(str::to_owned).collect()
        };
        let of = |endpoint| (names(endpoint, "forZones").join(","), names(endpoint, "forNodes").join(","));
        slice.endpoints.iter().map(of).collect::<Vec<_>>()
    };
    let none = || (String::new(), String::new());
    assert_eq!(hints(Prefers::All), [none(), none(), none()]);
    assert_eq!(hints(Prefers::Zone), [("z1".to_owned(), String::new()), none(), none()]);
    assert_eq!(hints(Prefers::Node), [("z1".to_owned(), "n1".to_owned()), none(), none()]);
}
