//! Test builders: nodes and pods from short texts, and an engine that schedules them.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::engine::{Authority, Decision, Engine};
use crate::intern::{Interner, Sym};
use crate::labels::{Labels, Op, Requirement, Selector};
use crate::model::{
    Effect, HostPort, Matcher, NameField, NodeInfo, NodeTerm, PodInfo, PodSpec, PodTerm, Protocol, Requests, Spread,
    Taint, Toleration, UNSET_CPU, UNSET_MEMORY,
};
use crate::queue::Stamp;
use crate::table::PLUGINS;

pub(crate) mod oracle;

/// Parses `500m`, `2`, `4Gi`, `10Mi` as milli-units (cpu) or units (any other resource).
pub(crate) fn amount(resource: &str, text: &str) -> i64 {
    let milli = if resource == "cpu" { 1000 } else { 1 };
    if let Some(number) = text.strip_suffix('m') {
        return number.parse().unwrap();
    }
    let factor = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    for (suffix, factor) in factor {
        if let Some(number) = text.strip_suffix(suffix) {
            return number.parse::<i64>().unwrap() * factor;
        }
    }
    text.parse::<i64>().unwrap() * milli
}

fn effect(text: &str) -> Effect {
    match text {
        "NoSchedule" => Effect::NoSchedule,
        "NoExecute" => Effect::NoExecute,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        other => panic!("effect {other}"),
    }
}

/// Parses a requirement: `a=b`, `a!=b`, `a~b|c` (in), `a!~b|c` (not in), `a` (exists), `!a`, `a>5`, `a<5`.
pub(crate) fn requirement(names: &mut Interner, text: &str) -> Requirement {
    let list = |names: &mut Interner, values: &str| values.split('|').map(|value| names.intern(value)).collect();
    if let Some(key) = text.strip_prefix('!') {
        return Requirement { key: names.intern(key), op: Op::DoesNotExist };
    }
    if let Some((key, values)) = text.split_once("!~").or_else(|| text.split_once("!=")) {
        return Requirement { key: names.intern(key), op: Op::NotIn(list(names, values)) };
    }
    if let Some((key, values)) = text.split_once('~').or_else(|| text.split_once('=')) {
        return Requirement { key: names.intern(key), op: Op::In(list(names, values)) };
    }
    if let Some((key, value)) = text.split_once('>') {
        return Requirement { key: names.intern(key), op: Op::Gt(value.parse().unwrap()) };
    }
    if let Some((key, value)) = text.split_once('<') {
        return Requirement { key: names.intern(key), op: Op::Lt(value.parse().unwrap()) };
    }
    Requirement { key: names.intern(text), op: Op::Exists }
}

/// Parses requirements separated by `,`; `*` is the empty selector, `-` the nil selector.
pub(crate) fn selector(names: &mut Interner, text: &str) -> Selector {
    match text {
        "-" => Selector::Nothing,
        "*" => Selector::everything(),
        text => Selector::All(text.split(',').map(|part| requirement(names, part)).collect()),
    }
}

/// Builds a node: `cpu=4 memory=8Gi pods=110 gpu=2 label:zone=a taint:k=v:NoSchedule image:x=100Mi cordoned`.
/// The host name label is set unless the text contains `nohost`.
pub(crate) fn node(names: &mut Interner, name: &str, text: &str) -> NodeInfo {
    let mut info = NodeInfo { name: names.intern(name), pods: 110, ..NodeInfo::default() };
    let mut labels = vec![(Sym::HOSTNAME, info.name)];
    let mut allocatable: Requests = Requests::new();
    let (mut taints, mut images) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        if word == "cordoned" {
            info.unschedulable = true;
        } else if word == "nohost" {
            labels.clear();
        } else if let Some(label) = word.strip_prefix("label:") {
            let (key, value) = label.split_once('=').unwrap();
            labels.push((names.intern(key), names.intern(value)));
        } else if let Some(taint) = word.strip_prefix("taint:") {
            let (pair, kind) = taint.split_once(':').unwrap();
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            taints.push(Taint { key: names.intern(key), value: names.intern(value), effect: effect(kind) });
        } else if let Some(image) = word.strip_prefix("image:") {
            let (image, size) = image.split_once('=').unwrap();
            images.push((names.intern(image), amount("memory", size)));
        } else {
            let (resource, value) = word.split_once('=').unwrap();
            let value = amount(resource, value);
            if resource == "pods" {
                info.pods = value;
            } else {
                allocatable.push((names.resource(resource), value));
            }
        }
    }
    allocatable.sort();
    info.labels = Labels::new(labels);
    info.allocatable = allocatable;
    info.taints = taints.into();
    info.images = images.into();
    info
}

/// Parses a topology key; `host` and `az` abbreviate the well-known labels, which contain slashes.
fn topology(names: &mut Interner, text: &str) -> Sym {
    match text {
        "host" => Sym::HOSTNAME,
        "az" => Sym::ZONE,
        text => names.intern(text),
    }
}

fn pod_term(names: &mut Interner, namespace: Sym, text: &str) -> PodTerm {
    // topology/selector[/namespaces|namespace selector after '@']
    let mut parts = text.splitn(3, '/');
    let topology = topology(names, parts.next().unwrap());
    let chosen = selector(names, parts.next().unwrap());
    let (mut namespaces, mut namespace_selector) = (vec![namespace], Selector::Nothing);
    if let Some(scope) = parts.next() {
        if let Some(text) = scope.strip_prefix('@') {
            namespaces.clear();
            namespace_selector = selector(names, text);
        } else {
            namespaces = scope.split('|').map(|name| names.intern(name)).collect();
            namespaces.sort();
        }
    }
    let matcher = Matcher { selector: chosen, namespaces: namespaces.into(), namespace_selector };
    PodTerm { topology, matcher }
}

fn node_term(names: &mut Interner, text: &str) -> NodeTerm {
    let (mut labels, mut fields) = (Vec::new(), Vec::new());
    for part in text.split(',') {
        if let Some(name) = part.strip_prefix("name!=") {
            fields.push(NameField { wanted: false, name: names.intern(name) });
        } else if let Some(name) = part.strip_prefix("name=") {
            fields.push(NameField { wanted: true, name: names.intern(name) });
        } else {
            labels.push(requirement(names, part));
        }
    }
    NodeTerm { labels: labels.into(), fields: fields.into(), never: false }
}

/// Builds a pod: `ns=a cpu=1 memory=1Gi label:app=x select:disk=ssd need:zone~a|b prefer:5:zone=a tolerate:k=v:NoSchedule
/// port:80 near:zone/app=x apart:host/app=x like:10:zone/app=x spread:zone/1/app=x softspread:… image:x
/// priority=5 started=100 gate:g node=n1 nominated=n1 terminating preempted never`.
pub(crate) fn pod(names: &mut Interner, name: &str, text: &str) -> PodInfo {
    let namespace = text.split_whitespace().find_map(|word| word.strip_prefix("ns=")).unwrap_or("default");
    let mut spec = PodSpec { namespace: names.intern(namespace), ..PodSpec::default() };
    let mut info = PodInfo {
        uid: Arc::from(format!("uid-{name}")),
        name: Arc::from(name),
        spec: Arc::default(),
        priority: 0,
        gates: Box::default(),
        node: None,
        nominated: None,
        terminating: false,
        preempted: false,
        started: i64::MAX,
        never_preempts: false,
        scheduler: Sym::EMPTY,
        version: 1,
        generation: 1,
    };
    let mut labels = Vec::new();
    let (mut selectors, mut tolerations, mut ports) = (Vec::new(), Vec::new(), Vec::new());
    let (mut near, mut apart, mut preferred, mut spread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut needs, mut prefers, mut images, mut gates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let namespace = spec.namespace;
    for word in text.split_whitespace() {
        if let Some((kind, rest)) = word.split_once(':') {
            match kind {
                "label" => {
                    let (key, value) = rest.split_once('=').unwrap();
                    labels.push((names.intern(key), names.intern(value)));
                }
                "select" => selectors.push(requirement(names, rest)),
                "need" => needs.push(node_term(names, rest)),
                "prefer" => {
                    let (weight, term) = rest.split_once(':').unwrap();
                    prefers.push((weight.parse().unwrap(), node_term(names, term)));
                }
                "tolerate" => {
                    let (pair, kind) = rest.split_once(':').unwrap_or((rest, ""));
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    tolerations.push(Toleration {
                        key: names.intern(key.trim_start_matches('*')),
                        value: names.intern(value),
                        exists: !pair.contains('='),
                        effect: (!kind.is_empty()).then(|| effect(kind)),
                    });
                }
                "port" => {
                    let (address, port) = rest.split_once('@').map_or(("0.0.0.0", rest), |(port, at)| (at, port));
                    let address = names.intern(address);
                    ports.push(HostPort { address, protocol: Protocol::Tcp, port: port.parse().unwrap() });
                }
                "near" => near.push(pod_term(names, namespace, rest)),
                "apart" => apart.push(pod_term(names, namespace, rest)),
                "like" => {
                    let (weight, term) = rest.split_once(':').unwrap();
                    preferred.push((weight.parse().unwrap(), pod_term(names, namespace, term)));
                }
                "spread" | "softspread" => {
                    // topology/skew/selector[/min domains][/taints]
                    let parts: Vec<&str> = rest.split('/').collect();
                    spread.push(Spread {
                        topology: topology(names, parts[0]),
                        max_skew: parts[1].parse().unwrap(),
                        hard: kind == "spread",
                        selector: selector(names, parts[2]),
                        min_domains: parts.get(3).map_or(1, |text| text.parse().unwrap()),
                        honor_affinity: true,
                        honor_taints: parts.get(4) == Some(&"taints"),
                    });
                }
                "image" => images.push(names.intern(rest)),
                "gate" => gates.push(Arc::from(rest)),
                other => panic!("{other}"),
            }
            continue;
        }
        match word.split_once('=') {
            Some(("ns", _)) => {}
            Some(("priority", value)) => info.priority = value.parse().unwrap(),
            Some(("node", value)) => info.node = Some(names.intern(value)),
            Some(("nominated", value)) => info.nominated = Some(names.intern(value)),
            Some(("wants", value)) => spec.node_name = Some(names.intern(value)),
            Some(("started", value)) => info.started = value.parse().unwrap(),
            Some(("version", value)) => info.version = value.parse().unwrap(),
            Some((resource, value)) => {
                let value = amount(resource, value);
                if value != 0 {
                    spec.requests.push((names.resource(resource), value));
                }
            }
            None if word == "terminating" => info.terminating = true,
            None if word == "preempted" => info.preempted = true,
            None if word == "never" => info.never_preempts = true,
            None => panic!("{word}"),
        }
    }
    spec.requests.sort();
    spec.requests.dedup_by_key(|entry| entry.0);
    let cpu = spec.request(crate::intern::Res::CPU);
    let memory = spec.request(crate::intern::Res::MEMORY);
    spec.nonzero = [if cpu == 0 { UNSET_CPU } else { cpu }, if memory == 0 { UNSET_MEMORY } else { memory }];
    spec.labels = Labels::new(labels);
    spec.node_selector = selectors.into();
    spec.node_required = (!needs.is_empty()).then(|| needs.into());
    spec.node_preferred = prefers.into();
    spec.tolerations = tolerations.into();
    spec.ports = ports.into();
    spec.affinity = near.into();
    spec.anti_affinity = apart.into();
    spec.preferred = preferred.into();
    spec.spread = spread.into();
    spec.images = images.into();
    info.gates = gates.into();
    info.spec = Arc::new(spec);
    info
}

/// An engine with a clock and a random seed.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Stamp,
    pub(crate) seed: u64,
}

/// Returns a pseudo-random number below `below`, good enough for ties and random histories.
pub(crate) fn roll(seed: &mut u64, below: u32) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 33) % u64::from(below.max(1))) as u32
}

impl World {
    pub(crate) fn new(nodes: &[(&str, &str)]) -> Self {
        let engine = Engine::new(PLUGINS, Cluster::default());
        let mut world = Self { engine, now: Stamp(1_000_000_000_000), seed: 0 };
        for (name, text) in nodes {
            world.node(name, text);
        }
        world
    }

    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        &mut self.engine.cluster
    }

    pub(crate) fn node(&mut self, name: &str, text: &str) {
        let info = node(&mut self.engine.cluster.names, name, text);
        self.engine.on_node(info, self.now);
    }

    pub(crate) fn pod(&mut self, name: &str, text: &str) -> Arc<PodInfo> {
        let info = Arc::new(pod(&mut self.engine.cluster.names, name, text));
        self.engine.on_pod(Arc::clone(&info), true, self.now);
        info
    }

    pub(crate) fn step(&mut self) -> Option<Decision<()>> {
        let seed = &mut self.seed;
        self.engine.next(Authority::Local(()), self.now, &mut |below| roll(seed, below))
    }

    /// Creates a pod, takes one decision and returns the node's name or the message.
    pub(crate) fn try_pod(&mut self, name: &str, text: &str) -> String {
        self.pod(name, text);
        match self.step() {
            Some(Decision::Bind { node, .. }) => node.to_string(),
            Some(Decision::Unschedulable { message, .. } | Decision::Postponed { message, .. }) => message,
            other => panic!("{other:?}"),
        }
    }

    /// Returns names and total scores of the nodes that fit a pod, sorted by name.
    pub(crate) fn totals(&mut self, text: &str) -> Vec<(String, i32)> {
        let info = Arc::new(pod(&mut self.engine.cluster.names, "probe", text));
        let mut shard = crate::shard::Shard::new(PLUGINS);
        let cluster = &mut self.engine.cluster;
        let totals = shard.totals(cluster, &info);
        let mut named: Vec<(String, i32)> = totals
            .into_iter()
            .map(|(node, total)| (cluster.names.text(cluster.nodes.name(node)).to_string(), total))
            .collect();
        named.sort();
        named
    }

    /// Returns the names of the nodes that fit a pod, sorted and joined.
    pub(crate) fn fits(&mut self, text: &str) -> String {
        self.totals(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    }
}
