//! Plans the Endpoints object of a Service: addresses grouped by ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Str, Value};

use super::address::{Address, Reached};
use super::order::{self, Subset};
use super::{CAPACITY, MANAGED_BY, MANAGER};
use crate::core::endpointslice::HEADLESS;
use crate::core::service_pods::{counts, ports};
use crate::project::{EndpointsView, PodView, ServicePort, ServiceView};
use crate::write::node;

/// The most addresses of an Endpoints object (upstream `maxCapacity`).
const MAX_ADDRESSES: usize = 1000;

/// The wanted content of an Endpoints object.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Labels.
    pub(super) labels: BTreeMap<Str, Str>,
    /// Subsets.
    pub(super) subsets: Vec<Value>,
    /// Whether addresses were left out.
    pub(super) truncated: bool,
}

impl Wanted {
    /// Whether an existing object has the wanted content.
    pub(super) fn stands(&self, there: &Item<EndpointsView>) -> bool {
        there.value.subsets == self.subsets
            && there.meta.labels.len() == self.labels.len()
            && self.labels.iter().all(|(key, value)| there.meta.label(key) == Some(value.as_str()))
            && (there.meta.annotation(CAPACITY) == Some("truncated")) == self.truncated
    }
}

/// Addresses by IP and pod uid, so that each pod occurs once, with the readiness of each.
type Addresses = BTreeMap<(Str, Str), bool>;

/// Plans the subsets. Each port has a set of addresses; ports with equal sets share a subset (upstream `RepackSubsets`).
pub(super) fn plan(service: &Item<ServiceView>, pods: &[Arc<Item<PodView>>]) -> Wanted {
    let publish = service.value.publish_not_ready;
    let v6 = service.value.families.first().is_some_and(|family| family == "IPv6");
    let mut by_port: BTreeMap<Option<Reached>, Addresses> = BTreeMap::new();
    let mut all: BTreeMap<(Str, Str), Address> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| counts(pod, publish)) {
        let Some(ip) = pod.value.ips.iter().find(|ip| ip.contains(':') == v6) else { continue };
        let mut at: Vec<Option<Reached>> =
            ports(&service.value, &pod.value).into_iter().map(|(port, number)| Some(reached(port, number))).collect();
        // Only a headless Service without ports lists pods without ports.
        if at.is_empty() && service.value.headless && service.value.ports.is_empty() {
            at.push(None);
        }
        let key = (ip.clone(), pod.meta.uid.0.clone());
        for port in at {
            all.entry(key.clone()).or_insert_with(|| Address::of(service, pod, ip));
            by_port.entry(port).or_default().insert(key.clone(), publish || pod.value.ready);
        }
    }
    let mut by_addresses: BTreeMap<Addresses, Vec<Reached>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port);
    }
    let mut subsets: Vec<Subset<'_>> =
        by_addresses.into_iter().map(|(keys, ports)| subset(keys, ports, &all)).collect();
    order::sort(&mut subsets);
    let total: usize = subsets.iter().map(|subset| subset.ready.len() + subset.unready.len()).sum();
    // Ready addresses are kept before others.
    let mut room = MAX_ADDRESSES;
    for ready in [true, false] {
        for subset in &mut subsets {
            let list = if ready { &mut subset.ready } else { &mut subset.unready };
            list.truncate(room);
            room -= list.len();
        }
    }
    let filled = subsets.into_iter().filter(|subset| !subset.ready.is_empty() || !subset.unready.is_empty());
    Wanted { labels: labels(service), subsets: filled.map(subset_of).collect(), truncated: total > MAX_ADDRESSES }
}

fn subset(keys: Addresses, ports: Vec<Reached>, all: &BTreeMap<(Str, Str), Address>) -> Subset<'_> {
    let mut subset = Subset { ports, ready: Vec::new(), unready: Vec::new() };
    for (key, ready) in keys {
        let list = if ready { &mut subset.ready } else { &mut subset.unready };
        list.extend(all.get(&key));
    }
    subset
}

fn reached(port: &ServicePort, number: i64) -> Reached {
    let ServicePort { name, protocol, app_protocol, target: _ } = port;
    Reached { name: name.clone(), number, protocol: protocol.clone(), app_protocol: app_protocol.clone() }
}

fn labels(service: &Item<ServiceView>) -> BTreeMap<Str, Str> {
    let mut labels: BTreeMap<Str, Str> =
        service.meta.labels.iter().filter(|(key, _)| key != HEADLESS).cloned().collect();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.value.headless {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels
}

fn subset_of(subset: Subset<'_>) -> Value {
    let mut fields = Vec::new();
    for (name, list) in [("addresses", subset.ready), ("notReadyAddresses", subset.unready)] {
        if !list.is_empty() {
            fields.push((name, Value::from_iter(list.into_iter().map(Address::write))));
        }
    }
    if !subset.ports.is_empty() {
        fields.push(("ports", Value::from_iter(subset.ports.iter().map(port_of))));
    }
    Value::Struct(node(core_v1::EndpointSubset::TYPE, fields))
}

fn port_of(port: &Reached) -> Value {
    let mut fields = vec![("port", Value::from(port.number)), ("protocol", port.protocol.clone().into())];
    if !port.name.is_empty() {
        fields.push(("name", port.name.clone().into()));
    }
    if let Some(protocol) = &port.app_protocol {
        fields.push(("appProtocol", protocol.clone().into()));
    }
    Value::Struct(node(core_v1::EndpointPort::TYPE, fields))
}
