//! Pod: what is filled in only for pods, not for the templates that they are made from.

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{Container, ContainerMut, ContainerPortMut, PodMut, PodSpec, PodSpecMut};
use oarlock_schema::{Map, Struct, Value};

/// Upstream `SetDefaults_Pod`.
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
        pod_level(&mut spec);
    }
    if spec.read().enable_service_links().is_none() {
        spec.set_enable_service_links(true);
    }
    // Templates keep what is wrong (upstream `Convert_v1_Pod_To_core_Pod`).
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

/// What has a limit and no request is requested up to the limit.
fn requests_from_limits(resources: &mut Struct) {
    let Some(limits) = resources.get("limits").and_then(Value::as_map).cloned() else { return };
    merge_absent(resources, "requests", limits.entries().iter().map(|(k, v)| (k.as_str(), v.clone())));
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

/// Resources that a whole pod may ask for (KEP-2837).
fn for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Pod-level requests and limits follow from those of the containers (KEP-2837).
fn pod_level(spec: &mut PodSpecMut<'_>) {
    let huge = aggregate(spec.read(), true);
    let requests = aggregate(spec.read(), false);
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
    // Huge pages cannot be overcommitted, so containers' requests say nothing about the pod's.
    let overcommitted = requests.iter().filter(|(k, _)| matches!(*k, "cpu" | "memory")).map(|(k, v)| (k, v.clone()));
    merge_absent(node, "requests", overcommitted);
    let limits = node.get("limits").and_then(Value::as_map).cloned().unwrap_or_default();
    merge_absent(node, "requests", limits.iter().filter(|(k, _)| for_pods(k)).map(|(k, v)| (k, v.clone())));
}

/// What the containers need at once, as a list of resources.
fn aggregate(spec: PodSpec<'_>, limits: bool) -> Map {
    total(spec, limits).0.iter().map(|(k, v)| (k.as_str(), Value::from(v.canonical()))).collect()
}

/// What the containers need at once: the running ones together, or one init container with the sidecars started before it (upstream
/// `AggregateContainerRequests`, `AggregateContainerLimits`).
pub(super) fn total(spec: PodSpec<'_>, limits: bool) -> Sum {
    let mut running = Sum::default();
    for container in spec.containers().iter() {
        running.add(amounts(container, limits));
    }
    let (mut sidecars, mut peak) = (Sum::default(), Sum::default());
    for container in spec.init_containers().iter() {
        if container.restart_policy() == Some("Always") {
            running.add(amounts(container, limits));
            sidecars.add(amounts(container, limits));
            peak.raise(&sidecars);
        } else {
            let mut moment = sidecars.clone();
            moment.add(amounts(container, limits));
            peak.raise(&moment);
        }
    }
    running.raise(&peak);
    running
}

fn amounts(container: Container<'_>, limits: bool) -> impl Iterator<Item = (&str, &str)> {
    let resources = container.resources();
    if limits { resources.limits() } else { resources.requests() }.iter()
}

/// Amounts by resource.
#[derive(Clone, Default)]
pub(super) struct Sum(pub(super) std::collections::BTreeMap<String, Quantity>);

impl Sum {
    fn add<'a>(&mut self, entries: impl Iterator<Item = (&'a str, &'a str)>) {
        for (key, text) in entries {
            let Ok(quantity) = Quantity::parse(text) else { continue };
            match self.0.get_mut(key) {
                Some(sum) => *sum = sum.plus(&quantity),
                None => drop(self.0.insert(key.to_owned(), quantity)),
            }
        }
    }
    fn raise(&mut self, other: &Self) {
        for (key, quantity) in &other.0 {
            let entry = self.0.entry(key.clone()).or_insert_with(|| quantity.clone());
            if quantity > entry {
                *entry = quantity.clone();
            }
        }
    }
}
