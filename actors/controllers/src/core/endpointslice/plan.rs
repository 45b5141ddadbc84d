//! Plans the EndpointSlices of a Service.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_schema::views::{View, core_v1, discovery_v1};
use oarlock_schema::{Str, Value};

use super::{HEADLESS, MANAGED_BY, MANAGER, SERVICE};
use crate::core::service_pods::{counts, hostname, ports};
use crate::project::{PodView, Prefers, ServiceView, SliceView};
use crate::write::node;

/// The wanted content of one slice.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The slice to change; `None` to create one.
    pub(super) slice: Option<Arc<Item<SliceView>>>,
    /// IPv4 or IPv6.
    pub(super) family: Str,
    /// Labels.
    pub(super) labels: BTreeMap<Str, Str>,
    /// Ports.
    pub(super) ports: Vec<Value>,
    /// Endpoints.
    pub(super) endpoints: Vec<Value>,
}

/// The slices of a Service to write and to delete.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Slices to write.
    pub(super) write: Vec<Wanted>,
    /// Slices to delete.
    pub(super) delete: Vec<Arc<Item<SliceView>>>,
}

/// Plans which slices are written and deleted. `zone` returns the zone of a node; a slice holds at most `max` endpoints.
pub(super) fn plan(
    service: &Item<ServiceView>,
    pods: &[Arc<Item<PodView>>],
    slices: &[Arc<Item<SliceView>>],
    zone: &dyn Fn(&str) -> Option<Str>,
    max: usize,
) -> Plan {
    let mut plan = Plan::default();
    let families: Vec<&str> = match &*service.value.families {
        [] => vec!["IPv4"],
        some => some.iter().map(Str::as_str).collect(),
    };
    let (known, other): (Vec<_>, Vec<_>) =
        slices.iter().cloned().partition(|slice| families.contains(&slice.value.family.as_str()));
    plan.delete.extend(other);
    for family in families {
        let there = known.iter().filter(|slice| slice.value.family == family).cloned().collect();
        of_family(service, pods, there, family, zone, max, &mut plan);
    }
    plan
}

/// Endpoints with the same ports, by pod (uid).
#[derive(Default)]
struct Group {
    ports: Vec<Value>,
    endpoints: BTreeMap<Str, Value>,
}

fn of_family(
    service: &Item<ServiceView>,
    pods: &[Arc<Item<PodView>>],
    there: Vec<Arc<Item<SliceView>>>,
    family: &str,
    zone: &dyn Fn(&str) -> Option<Str>,
    max: usize,
    plan: &mut Plan,
) {
    // Pods may resolve a named port differently; each resolution has slices of its own.
    let mut groups: BTreeMap<Vec<(Str, i64)>, Group> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| counts(pod, true)) {
        let v6 = family == "IPv6";
        let Some(ip) = pod.value.ips.iter().find(|ip| ip.contains(':') == v6) else { continue };
        let at = ports(&service.value, &pod.value);
        let group = groups.entry(at.iter().map(|(port, number)| (port.name.clone(), *number)).collect()).or_default();
        if group.ports.is_empty() {
            group.ports = at.iter().map(|(port, number)| port_of(port, *number)).collect();
        }
        group.endpoints.insert(pod.meta.uid.0.clone(), endpoint(service, pod, ip, zone));
    }
    if groups.is_empty() {
        // A Service without endpoints has one empty slice, which shows watchers that the controller has processed the Service.
        groups.entry(Vec::new()).or_default();
    }
    let labels = labels(service);
    let mut left = there;
    for group in groups.into_values() {
        let (same, rest) = left.into_iter().partition(|slice| slice.value.ports == group.ports);
        left = rest;
        fill(group, same, family, &labels, max, plan);
    }
    plan.delete.extend(left);
}

/// A slice (`None` for a new one) and its future endpoints.
type Filled = (Option<Arc<Item<SliceView>>>, Vec<Value>);

/// Distributes endpoints over slices with few writes: endpoints stay in their slice, and new ones fill free places.
fn fill(
    group: Group,
    slices: Vec<Arc<Item<SliceView>>>,
    family: &str,
    labels: &BTreeMap<Str, Str>,
    max: usize,
    plan: &mut Plan,
) {
    let Group { ports, mut endpoints } = group;
    let mut filled: Vec<Filled> = Vec::new();
    for slice in slices {
        let mut kept = Vec::new();
        for old in &slice.value.endpoints {
            if kept.len() < max
                && let Some(next) = uid(old).and_then(|uid| endpoints.remove(uid))
            {
                kept.push(next);
            }
        }
        filled.push((Some(slice), kept));
    }
    let mut rest: VecDeque<Value> = endpoints.into_values().collect();
    // New endpoints go to slices that must be written anyway, then to the fullest.
    filled.sort_by_key(|(slice, kept)| {
        let touched = slice.as_ref().is_some_and(|slice| slice.value.endpoints != *kept);
        (!touched, usize::MAX - kept.len())
    });
    for (_, kept) in &mut filled {
        let room = max.saturating_sub(kept.len()).min(rest.len());
        kept.extend(rest.drain(..room));
    }
    while !rest.is_empty() {
        let some = rest.len().min(max);
        filled.push((None, rest.drain(..some).collect()));
    }
    let all_empty = filled.iter().all(|(_, kept)| kept.is_empty());
    if filled.is_empty() {
        filled.push((None, Vec::new()));
    }
    let mut placeholder = all_empty;
    for (slice, endpoints) in filled {
        let keep = !endpoints.is_empty() || std::mem::take(&mut placeholder);
        match slice {
            Some(slice) if !keep => plan.delete.push(slice),
            slice => {
                let wanted =
                    Wanted { slice, family: family.into(), labels: labels.clone(), ports: ports.clone(), endpoints };
                if changed(&wanted) {
                    plan.write.push(wanted);
                }
            }
        }
    }
}

fn changed(wanted: &Wanted) -> bool {
    let Some(slice) = &wanted.slice else { return true };
    let same_labels = slice.meta.labels.len() == wanted.labels.len()
        && wanted.labels.iter().all(|(key, value)| slice.meta.label(key) == Some(value.as_str()));
    !same_labels || slice.value.endpoints != wanted.endpoints || slice.value.ports != wanted.ports
}

fn uid(endpoint: &Value) -> Option<&str> {
    endpoint.at(&["targetRef", "uid"])?.as_str()
}

fn labels(service: &Item<ServiceView>) -> BTreeMap<Str, Str> {
    let reserved: BTreeSet<&str> = [SERVICE, MANAGED_BY, HEADLESS].into();
    let mut labels: BTreeMap<Str, Str> =
        service.meta.labels.iter().filter(|(key, _)| !reserved.contains(key.as_str())).cloned().collect();
    labels.insert(SERVICE.into(), service.key().name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.value.headless {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels
}

fn port_of(port: &crate::project::ServicePort, number: i64) -> Value {
    let mut fields = vec![
        ("name", Value::from(port.name.clone())),
        ("protocol", port.protocol.clone().into()),
        ("port", number.into()),
    ];
    if let Some(protocol) = &port.app_protocol {
        fields.push(("appProtocol", protocol.clone().into()));
    }
    Value::Struct(node(discovery_v1::EndpointPort::TYPE, fields))
}

fn endpoint(service: &Item<ServiceView>, pod: &Item<PodView>, ip: &Str, zone: &dyn Fn(&str) -> Option<Str>) -> Value {
    let (serving, terminating) = (pod.value.ready, pod.meta.deleting());
    let ready = service.value.publish_not_ready || (serving && !terminating);
    let conditions = node(
        discovery_v1::EndpointConditions::TYPE,
        [("ready", ready.into()), ("serving", serving.into()), ("terminating", terminating.into())],
    );
    let mut fields = vec![
        ("addresses", Value::from_iter([ip.clone()])),
        ("conditions", conditions.into()),
        ("targetRef", target(pod)),
    ];
    if let Some(name) = hostname(service.meta.name(), &pod.value) {
        fields.push(("hostname", name.clone().into()));
    }
    let zone = if pod.value.node.is_empty() { None } else { zone(&pod.value.node) };
    if !pod.value.node.is_empty() {
        fields.push(("nodeName", pod.value.node.clone().into()));
    }
    if let Some(zone) = &zone {
        fields.push(("zone", zone.clone().into()));
    }
    if ready && let Some(hints) = hints(service.value.prefers, &pod.value.node, zone.as_ref()) {
        fields.push(("hints", hints));
    }
    Value::Struct(node(discovery_v1::Endpoint::TYPE, fields))
}

/// Returns the topology hints of a ready endpoint if the Service prefers near endpoints (upstream `trafficdist`).
fn hints(prefers: Prefers, at: &Str, zone: Option<&Str>) -> Option<Value> {
    let one = |ty, name: &Str| Value::from_iter([Value::Struct(node(ty, [("name", name.clone().into())]))]);
    let mut fields = Vec::new();
    if prefers != Prefers::All
        && let Some(zone) = zone
    {
        fields.push(("forZones", one(discovery_v1::ForZone::TYPE, zone)));
    }
    if prefers == Prefers::Node && !at.is_empty() {
        fields.push(("forNodes", one(discovery_v1::ForNode::TYPE, at)));
    }
    (!fields.is_empty()).then(|| Value::Struct(node(discovery_v1::EndpointHints::TYPE, fields)))
}

/// Returns the `targetRef` to an endpoint's pod.
pub(crate) fn target(pod: &Item<PodView>) -> Value {
    let fields = [
        ("kind", Value::from("Pod")),
        ("namespace", pod.meta.namespace().into()),
        ("name", pod.meta.name().into()),
        ("uid", pod.meta.uid.as_str().into()),
    ];
    Value::Struct(node(core_v1::ObjectReference::TYPE, fields))
}
