//! Which addresses a service has, grouped by ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Str, Value};

use super::{CAPACITY, MANAGED, MANAGER};
use crate::behind::{counts, hostname, ports};
use crate::endpointslice::HEADLESS;
use crate::endpointslice::plan::target;
use crate::project::{EndpointsView, PodView, ServicePort, ServiceView};
use crate::write::node;

/// Addresses of an Endpoints object at most (upstream `maxCapacity`).
const MOST: usize = 1000;

/// The object as it should be.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Labels.
    pub(super) labels: BTreeMap<Str, Str>,
    /// Subsets.
    pub(super) subsets: Vec<Value>,
    /// Addresses were left out.
    pub(super) truncated: bool,
}

impl Wanted {
    /// Whether an object is as it should be.
    pub(super) fn stands(&self, there: &Item<EndpointsView>) -> bool {
        there.value.subsets == self.subsets
            && there.meta.labels.len() == self.labels.len()
            && self.labels.iter().all(|(key, value)| there.meta.label(key) == Some(value.as_str()))
            && (there.meta.annotation(CAPACITY) == Some("truncated")) == self.truncated
    }
}

#[derive(Default)]
struct Subset {
    ports: Vec<Value>,
    ready: BTreeMap<(Str, Str), Value>,
    unready: BTreeMap<(Str, Str), Value>,
}

/// Decides.
pub(super) fn plan(service: &Item<ServiceView>, pods: &[Arc<Item<PodView>>]) -> Wanted {
    let publish = service.value.publish_not_ready;
    let v6 = service.value.families.first().is_some_and(|family| family == "IPv6");
    let mut subsets: BTreeMap<Vec<(Str, i64)>, Subset> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| counts(pod, publish)) {
        let Some(ip) = pod.value.ips.iter().find(|ip| ip.contains(':') == v6) else { continue };
        let at = ports(&service.value, &pod.value);
        // A headless service may have no ports; any other has nothing to say of a pod without them.
        if at.is_empty() && !(service.value.headless && service.value.ports.is_empty()) {
            continue;
        }
        let subset = subsets.entry(at.iter().map(|(port, number)| (port.name.clone(), *number)).collect()).or_default();
        if subset.ports.is_empty() {
            subset.ports = at.iter().map(|(port, number)| port_of(port, *number)).collect();
        }
        let list = if publish || pod.value.ready { &mut subset.ready } else { &mut subset.unready };
        list.insert((ip.clone(), pod.meta.uid.0.clone()), address(service, pod, ip));
    }
    let total: usize = subsets.values().map(|subset| subset.ready.len() + subset.unready.len()).sum();
    // Ready addresses are kept before others.
    let mut room = MOST;
    for list in [true, false] {
        for subset in subsets.values_mut() {
            let list = if list { &mut subset.ready } else { &mut subset.unready };
            while list.len() > room {
                list.pop_last();
            }
            room -= list.len();
        }
    }
    let filled = subsets.into_values().filter(|subset| !subset.ready.is_empty() || !subset.unready.is_empty());
    Wanted { labels: labels(service), subsets: filled.map(subset_of).collect(), truncated: total > MOST }
}

fn labels(service: &Item<ServiceView>) -> BTreeMap<Str, Str> {
    let mut labels: BTreeMap<Str, Str> =
        service.meta.labels.iter().filter(|(key, _)| key != HEADLESS).cloned().collect();
    labels.insert(MANAGED.into(), MANAGER.into());
    if service.value.headless {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels
}

fn subset_of(subset: Subset) -> Value {
    let mut fields = Vec::new();
    for (name, list) in [("addresses", subset.ready), ("notReadyAddresses", subset.unready)] {
        if !list.is_empty() {
            fields.push((name, Value::from_iter(list.into_values())));
        }
    }
    if !subset.ports.is_empty() {
        fields.push(("ports", Value::from_iter(subset.ports)));
    }
    Value::Struct(node(core_v1::EndpointSubset::TYPE, fields))
}

fn port_of(port: &ServicePort, number: i64) -> Value {
    let mut fields = vec![("port", Value::from(number)), ("protocol", port.protocol.clone().into())];
    if !port.name.is_empty() {
        fields.push(("name", port.name.clone().into()));
    }
    if let Some(protocol) = &port.app_protocol {
        fields.push(("appProtocol", protocol.clone().into()));
    }
    Value::Struct(node(core_v1::EndpointPort::TYPE, fields))
}

fn address(service: &Item<ServiceView>, pod: &Item<PodView>, ip: &Str) -> Value {
    let mut fields = vec![("ip", Value::from(ip.clone())), ("targetRef", target(pod))];
    if let Some(name) = hostname(service.meta.name(), &pod.value) {
        fields.push(("hostname", name.clone().into()));
    }
    if !pod.value.node.is_empty() {
        fields.push(("nodeName", pod.value.node.clone().into()));
    }
    Value::Struct(node(core_v1::EndpointAddress::TYPE, fields))
}
