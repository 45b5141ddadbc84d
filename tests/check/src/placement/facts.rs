//! The facts of pods and nodes that the placement rules use.

use std::collections::BTreeMap;

use serde_json::Value;

use super::quantity::billionths;
use super::selectors::{Labels, NULL, at, keys_agree, node_terms, selects, text_of, tolerates};

/// Amounts by resource, in billionths.
pub(super) type Amounts = BTreeMap<String, i128>;

pub(super) fn amounts(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(name, text)| (name.clone(), text.as_str().and_then(billionths).unwrap_or(0))).collect()
}

fn labels(object: &Value) -> Labels {
    let entries = at(object, "/metadata/labels").as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    more.iter().for_each(|(name, amount)| *sum.entry(name.clone()).or_default() += amount);
}

fn raise(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let value = sum.entry(name.clone()).or_default();
        *value = (*value).max(*amount);
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn is_sidecar(container: &Value) -> bool {
    at(container, "/restartPolicy") == "Always"
}

/// The requests of a pod's spec: the sum of its containers, or an init container with the earlier sidecars where that is more.
fn requests(spec: &Value) -> Amounts {
    let (mut sum, mut sidecars, mut peak) = (Amounts::new(), Amounts::new(), Amounts::new());
    let of = |container: &Value| amounts(at(container, "/resources/requests"));
    list(spec, "containers").for_each(|container| add(&mut sum, &of(container)));
    for init in list(spec, "initContainers") {
        let mut own = of(init);
        if is_sidecar(init) {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut peak, &own);
        }
    }
    add(&mut sum, &sidecars);
    raise(&mut sum, &peak);
    for (name, amount) in amounts(at(spec, "/resources/requests")) {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            sum.insert(name, amount);
        }
    }
    add(&mut sum, &amounts(at(spec, "/overhead")));
    sum
}

/// A host port: address, protocol, number.
type Port = (String, String, u64);

fn ports(spec: &Value) -> Vec<Port> {
    let long_running = list(spec, "containers").chain(list(spec, "initContainers").filter(|init| is_sidecar(init)));
    let text = |value: &Value, unset: &str| value.as_str().filter(|text| !text.is_empty()).unwrap_or(unset).to_owned();
    let each = long_running.flat_map(|container| list(container, "ports")).filter_map(|port| {
        let number = at(port, "/hostPort").as_u64().filter(|number| *number > 0)?;
        Some((text(at(port, "/hostIP"), "0.0.0.0"), text(at(port, "/protocol"), "TCP"), number))
    });
    each.collect()
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) labels: Labels,
    taints: Vec<(String, String, String)>,
    unschedulable: bool,
    pub(super) allocatable: Amounts,
    /// The revision of the last change of any of these fields.
    pub(super) since: u64,
}

impl Node {
    pub(super) fn read(name: &str, object: &Value, revision: u64) -> Self {
        let text = |taint: &Value, field: &str| text_of(taint, field);
        let taint = |taint: &Value| (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        Self {
            name: name.to_owned(),
            labels: labels(object),
            taints: list(at(object, "/spec"), "taints").map(taint).collect(),
            unschedulable: at(object, "/spec/unschedulable") == true,
            allocatable: amounts(at(object, "/status/allocatable")),
            since: revision,
        }
    }

    /// Whether two states of a node are equal for pods.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (&self.labels, &self.taints, self.unschedulable, &self.allocatable)
            == (&other.labels, &other.taints, other.unschedulable, &other.allocatable)
    }

    pub(super) fn domain(&self, topology: &str) -> Option<&String> {
        self.labels.get(topology)
    }
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) key: String,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) labels: Labels,
    pub(super) node: Option<String>,
    pub(super) scheduler: String,
    /// Whether the pod has ended and so uses no resources.
    pub(super) ended: bool,
    pub(super) terminating: bool,
    pub(super) priority: i64,
    /// The node to which the pod is nominated.
    pub(super) nominated: Option<String>,
    /// Whether the pod is preempted for a pod of higher priority, according to its condition.
    pub(super) preempted: bool,
    pub(super) requests: Amounts,
    ports: Vec<Port>,
    pub(super) spec: Value,
}

impl Pod {
    pub(super) fn read(key: &str, object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (meta, spec) = (at(object, "/metadata"), at(object, "/spec"));
        let named = |value: &Value| value.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        let preempted = |condition: &Value| {
            at(condition, "/type") == "DisruptionTarget"
                && at(condition, "/status") == "True"
                && at(condition, "/reason") == "PreemptionByScheduler"
        };
        Self {
            key: key.to_owned(),
            uid: text(at(meta, "/uid")),
            namespace: text(at(meta, "/namespace")),
            labels: labels(object),
            node: named(at(spec, "/nodeName")),
            priority: at(spec, "/priority").as_i64().unwrap_or(0),
            nominated: named(at(object, "/status/nominatedNodeName")),
            preempted: list(at(object, "/status"), "conditions").any(preempted),
            scheduler: text(at(spec, "/schedulerName")),
            ended: matches!(at(object, "/status/phase").as_str(), Some("Succeeded" | "Failed")),
            terminating: at(meta, "/deletionTimestamp").is_string(),
            requests: requests(spec),
            ports: ports(spec),
            spec: spec.clone(),
        }
    }

    /// Returns the first host port of this pod that another pod also has.
    pub(super) fn shared_port(&self, other: &Self) -> Option<&Port> {
        let any = |address: &str| address == "0.0.0.0";
        self.ports.iter().find(|(address, protocol, number)| {
            other.ports.iter().any(|(theirs, their_protocol, their_number)| {
                (protocol, number) == (their_protocol, their_number)
                    && (address == theirs || any(address) || any(theirs))
            })
        })
    }

    pub(super) fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Whether the pod's own constraints allow a node.
    pub(super) fn likes(&self, node: &Node) -> bool {
        let equal = at(&self.spec, "/nodeSelector").as_object().into_iter().flatten();
        let required = at(&self.spec, "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        equal.into_iter().all(|(key, value)| node.labels.get(key).map(String::as_str) == value.as_str())
            && (required.is_null() || node_terms(at(required, "/nodeSelectorTerms"), &node.name, &node.labels))
    }

    /// Whether the pod tolerates the node's taints.
    pub(super) fn bears(&self, node: &Node) -> bool {
        let tolerations = at(&self.spec, "/tolerations");
        let hard = node.taints.iter().filter(|(_, _, effect)| effect != "PreferNoSchedule");
        let cordoned = "node.kubernetes.io/unschedulable";
        hard.into_iter().all(|(key, value, effect)| tolerates(tolerations, key, value, effect))
            && (!node.unschedulable || tolerates(tolerations, cordoned, "", "NoSchedule"))
    }

    /// Returns the required terms of `podAffinity` or `podAntiAffinity`.
    pub(super) fn terms(&self, which: &str) -> impl Iterator<Item = &Value> {
        list(at(&self.spec, "/affinity").get(which).unwrap_or(&NULL), "requiredDuringSchedulingIgnoredDuringExecution")
    }

    /// Whether a term of this pod selects another pod.
    pub(super) fn means(&self, term: &Value, other: &Self, namespaces: &BTreeMap<String, Labels>) -> bool {
        let named = at(term, "/namespaces").as_array().filter(|names| !names.is_empty());
        let selected = at(term, "/namespaceSelector");
        let none = Labels::new();
        let there = match (named, selected.is_object()) {
            (None, false) => other.namespace == self.namespace,
            (named, _) => {
                named.is_some_and(|names| names.iter().any(|name| *name == *other.namespace))
                    || selects(selected, namespaces.get(&other.namespace).unwrap_or(&none))
            }
        };
        there && selects(at(term, "/labelSelector"), &other.labels) && keys_agree(term, &self.labels, &other.labels)
    }

    /// Returns the hard spread constraints (`DoNotSchedule`).
    pub(super) fn hard_spread(&self) -> impl Iterator<Item = &Value> {
        list(&self.spec, "topologySpreadConstraints").filter(|rule| at(rule, "/whenUnsatisfiable") == "DoNotSchedule")
    }

    /// Whether a spread constraint of this pod counts another pod.
    pub(super) fn spreads(&self, rule: &Value, other: &Self) -> bool {
        other.namespace == self.namespace
            && selects(at(rule, "/labelSelector"), &other.labels)
            && keys_agree(rule, &self.labels, &other.labels)
    }
}
