//! Defaults of Pods that do not apply to pod templates.

use oarlock_pods::amounts::Quantities;
use oarlock_pods::{RequirementKind, Sum, pod_level};
use oarlock_schema::views::core_v1::{ContainerMut, ContainerPortMut, PodMut, PodSpec, PodSpecMut};
use oarlock_schema::{Map, Struct, Value};

/// Sets defaults like upstream's `SetDefaults_Pod`.
pub fn default(node: &mut Struct) {
    let mut pod = PodMut::new(node);
    let mut spec = pod.spec_mut();
    let host_network = spec.read().host_network();
    for init in [false, true] {
        let containers = if init { spec.read().init_containers().len() } else { spec.read().containers().len() };
        if containers == 0 {
            continue;
        }
        let list = if init { spec.init_containers_mut() } else { spec.containers_mut() };
        for container in list.iter_mut().filter_map(ContainerMut::from_value) {
            each_container(container, host_network);
        }
    }
    if spec.read().resources().is_some() {
        whole(&mut spec);
    }
    if spec.read().enable_service_links().is_none() {
        spec.set_enable_service_links(true);
    }
    // Templates keep invalid values (upstream `Convert_v1_Pod_To_core_Pod`).
    if spec.read().termination_grace_period_seconds().is_some_and(|seconds| seconds < 0) {
        spec.set_termination_grace_period_seconds(1i64);
    }
}

fn each_container(mut container: ContainerMut<'_>, host_network: bool) {
    if !container.read().resources().limits().is_empty() {
        requests_from_limits(container.resources_mut().node());
    }
    if host_network && !container.read().ports().is_empty() {
        for mut port in container.ports_mut().iter_mut().filter_map(ContainerPortMut::from_value) {
            if port.read().host_port() == 0 {
                let same = port.read().container_port();
                port.set_host_port(same);
            }
        }
    }
}

/// Sets missing requests to the limits.
fn requests_from_limits(resources: &mut Struct) {
    let amounts = |field| resources.get(field).and_then(Value::as_map);
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    let is_absent = |key: &str| requests.is_none_or(|requests| requests.get(key).is_none());
    let absent: Map = limits.into_iter().flat_map(Map::entries).filter(|(key, _)| is_absent(key)).cloned().collect();
    if !absent.is_empty() {
        merge_absent(resources, "requests", absent.iter().map(|(key, value)| (key, value.clone())));
    }
}

fn merge_absent<'a>(resources: &mut Struct, field: &str, entries: impl Iterator<Item = (&'a str, Value)>) {
    let mut map = match resources.remove_name(field) {
        Some(Value::Map(map)) => map,
        _ => Map::default(),
    };
    for (key, value) in entries {
        if map.get(key).is_none() {
            map.insert(key, value);
        }
    }
    if !map.is_empty() {
        resources.set_name(field, map);
    }
}

/// Derives pod-level requests and limits from those of the containers (KEP-2837).
fn whole(spec: &mut PodSpecMut<'_>) {
    let huge = aggregate(spec.read(), RequirementKind::Limits);
    let requests = aggregate(spec.read(), RequirementKind::Requests);
    let node = spec.resources_mut().node();
    let has = |node: &Struct, field: &str| node.get(field).and_then(Value::as_map).is_some_and(|m| !m.is_empty());
    if !has(node, "limits") && !has(node, "requests") {
        return;
    }
    let asked = node.get("requests").and_then(Value::as_map).cloned().unwrap_or_default();
    let open = |(key, _): &(&str, Value)| key.starts_with("hugepages-") && asked.get(key).is_none();
    merge_absent(node, "limits", huge.iter().map(|(k, v)| (k, v.clone())).filter(open));
    if !has(node, "limits") {
        return;
    }
    // Huge pages cannot be overcommitted, so the containers' requests do not determine the pod's.
    let overcommitted = requests.iter().filter(|(k, _)| matches!(*k, "cpu" | "memory")).map(|(k, v)| (k, v.clone()));
    merge_absent(node, "requests", overcommitted);
    let limits = node.get("limits").and_then(Value::as_map).cloned().unwrap_or_default();
    merge_absent(node, "requests", limits.iter().filter(|(k, _)| pod_level::supports(k)).map(|(k, v)| (k, v.clone())));
}

/// Returns the sum that the containers need at once, as a list of resources.
fn aggregate(spec: PodSpec<'_>, side: RequirementKind) -> Map {
    let sum = Sum::new(spec, side).of_containers(&Quantities);
    sum.iter().map(|(name, amount)| (name, Value::from(amount.canonical()))).collect()
}
