//! A brute-force scheduler: a second implementation of the rules over plain lists of objects, without columns, counts
//! or caches. The code is slow, and unlikely to share a fault with the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::intern::{Interner, Res, Sym};
use crate::labels::{Labels, Selector};
use crate::model::{Effect, Matcher, NodeInfo, PodInfo, PodSpec, PodTerm, Spread, Taint, Toleration};

/// A cluster as plain lists of objects.
pub(crate) struct Oracle<'a> {
    pub(crate) names: &'a Interner,
    pub(crate) nodes: Vec<Arc<NodeInfo>>,
    pub(crate) pods: Vec<(Arc<PodInfo>, Sym)>,
    pub(crate) namespaces: &'a BTreeMap<Sym, Labels>,
}

fn bears(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let effect = toleration.effect.is_none() || toleration.effect == Some(taint.effect);
        let key = toleration.key == Sym::EMPTY || toleration.key == taint.key;
        effect && key && (toleration.exists || toleration.value == taint.value)
    })
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(cluster: &'a Cluster, namespaces: &'a BTreeMap<Sym, Labels>) -> Self {
        Self {
            names: &cluster.names,
            nodes: cluster.nodes.live.iter().filter_map(|node| cluster.nodes.info(node).cloned()).collect(),
            pods: cluster.all_pods().map(|pod| (Arc::clone(&pod.info), pod.node)).collect(),
            namespaces,
        }
    }

    fn node(&self, name: Sym) -> Option<&NodeInfo> {
        self.nodes.iter().find(|node| node.name == name).map(|node| &**node)
    }

    fn on(&self, node: &NodeInfo) -> impl Iterator<Item = &PodSpec> {
        let name = node.name;
        self.pods.iter().filter(move |(_, at)| *at == name).map(|(pod, _)| &*pod.spec)
    }

    fn speaks_of(&self, matcher: &Matcher, pod: &PodSpec) -> bool {
        let nothing = Labels::default();
        let labels = self.namespaces.get(&pod.namespace).unwrap_or(&nothing);
        let here =
            matcher.namespaces.contains(&pod.namespace) || matcher.namespace_selector.matches(labels, self.names);
        here && matcher.selector.matches(&pod.labels, self.names)
    }

    fn wants(&self, pod: &PodSpec, node: &NodeInfo) -> bool {
        let meets = |wanted: &crate::labels::Requirement| wanted.accepts(node.labels.get(wanted.key), self.names);
        let selected = pod.node_selector.iter().all(meets);
        let required = pod.node_required.as_ref().is_none_or(|terms| {
            terms.iter().any(|term| {
                !term.never
                    && term.labels.iter().all(meets)
                    && term.fields.iter().all(|field| (node.name == field.name) == field.wanted)
            })
        });
        selected && required
    }

    /// Returns the pods placed on nodes in the same domain as `node`.
    fn together(&self, node: &NodeInfo, topology: Sym) -> Vec<&PodInfo> {
        let Some(value) = node.labels.get(topology) else { return Vec::new() };
        let same = |name: Sym| self.node(name).is_some_and(|other| other.labels.get(topology) == Some(value));
        self.pods.iter().filter(|(_, at)| same(*at)).map(|(pod, _)| &**pod).collect()
    }

    fn matches_all(&self, terms: &[PodTerm], pod: &PodSpec) -> bool {
        !terms.is_empty() && terms.iter().all(|term| self.speaks_of(&term.matcher, pod))
    }

    fn counted(&self, pod: &PodSpec, rules: &[&Spread], rule: &Spread, node: &NodeInfo, all_keys: bool) -> bool {
        let labelled = !all_keys || rules.iter().all(|rule| node.labels.get(rule.topology).is_some());
        let wanted = !rule.honor_affinity || self.wants(pod, node);
        let mut taints = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
        let bearable = !rule.honor_taints || taints.all(|taint| bears(&pod.tolerations, taint));
        labelled && wanted && bearable
    }

    fn spread_count(&self, pod: &PodSpec, rule: &Spread, node: &NodeInfo) -> i64 {
        if rule.selector.is_empty() {
            return 0;
        }
        let counts = |(other, at): &&(Arc<PodInfo>, Sym)| {
            *at == node.name
                && !other.terminating
                && other.spec.namespace == pod.namespace
                && rule.selector.matches(&other.spec.labels, self.names)
        };
        self.pods.iter().filter(counts).count() as i64
    }

    /// Returns the hard constraint that the pod would violate on the node, if any.
    pub(crate) fn violation(&self, pod: &PodSpec, node: &NodeInfo) -> Option<&'static str> {
        if pod.node_name.is_some_and(|name| name != node.name) {
            return Some("node name");
        }
        let cordon = Taint { key: Sym::UNSCHEDULABLE, value: Sym::EMPTY, effect: Effect::NoSchedule };
        if node.unschedulable && !bears(&pod.tolerations, &cordon) {
            return Some("cordoned");
        }
        for taint in &node.taints {
            if taint.effect != Effect::PreferNoSchedule && !bears(&pod.tolerations, taint) {
                return Some("taint");
            }
        }
        if !self.wants(pod, node) {
            return Some("node affinity");
        }
        for wanted in &pod.ports {
            if self.on(node).any(|other| other.ports.iter().any(|used| used.clashes(wanted))) {
                return Some("port");
            }
        }
        if self.on(node).count() as i64 + 1 > node.pods {
            return Some("pods");
        }
        for (resource, amount) in &pod.requests {
            let used: i64 = self.on(node).map(|other| other.request(*resource)).sum();
            if used + amount > node.allocatable(*resource) {
                return Some("resource");
            }
        }
        let hard: Vec<&Spread> = pod.spread.iter().filter(|rule| rule.hard).collect();
        for rule in &hard {
            let Some(value) = node.labels.get(rule.topology) else { return Some("spread label") };
            let mut domains: BTreeMap<Sym, i64> = BTreeMap::new();
            for other in &self.nodes {
                if self.counted(pod, &hard, rule, other, true)
                    && let Some(domain) = other.labels.get(rule.topology)
                {
                    *domains.entry(domain).or_default() += self.spread_count(pod, rule, other);
                }
            }
            let enough = domains.len() as i64 >= i64::from(rule.min_domains);
            let least = if enough { domains.values().copied().min() } else { Some(0) };
            let itself = i64::from(rule.selector.matches(&pod.labels, self.names));
            let count = domains.get(&value).copied().unwrap_or(0) + itself;
            if least.is_some_and(|least| count - least > i64::from(rule.max_skew)) {
                return Some("skew");
            }
        }
        if !pod.affinity.is_empty() {
            let labelled = pod.affinity.iter().all(|term| node.labels.get(term.topology).is_some());
            let joined = pod.affinity.iter().all(|term| {
                self.together(node, term.topology).iter().any(|other| self.matches_all(&pod.affinity, &other.spec))
            });
            let anyone = self.pods.iter().any(|(other, at)| {
                let at = self.node(*at);
                self.matches_all(&pod.affinity, &other.spec)
                    && at.is_some_and(|at| pod.affinity.iter().any(|term| at.labels.get(term.topology).is_some()))
            });
            let starts = !anyone && self.matches_all(&pod.affinity, pod);
            if !labelled || (!joined && !starts) {
                return Some("affinity");
            }
        }
        for term in &pod.anti_affinity {
            if self.together(node, term.topology).iter().any(|other| self.speaks_of(&term.matcher, &other.spec)) {
                return Some("anti-affinity");
            }
        }
        for (other, at) in &self.pods {
            for term in &other.spec.anti_affinity {
                let Some(at) = self.node(*at) else { continue };
                let value = at.labels.get(term.topology);
                if value.is_some() && value == node.labels.get(term.topology) && self.speaks_of(&term.matcher, pod) {
                    return Some("repelled");
                }
            }
        }
        None
    }

    /// Returns the total scores of the given nodes by upstream's formulas and default weights, in integers where upstream
    /// computes in integers.
    pub(crate) fn totals(&self, pod: &PodSpec, nodes: &[&NodeInfo], default_spread: Option<&Selector>) -> Vec<i64> {
        let mut totals = vec![0; nodes.len()];
        let mut add = |weight: i64, scores: Vec<i64>| {
            for (total, score) in totals.iter_mut().zip(scores) {
                *total += weight * score;
            }
        };
        add(1, nodes.iter().map(|node| self.least_allocated(pod, node)).collect());
        if pod.request(Res::CPU) != 0 || pod.request(Res::MEMORY) != 0 {
            add(1, nodes.iter().map(|node| self.balanced(pod, node)).collect());
        }
        let raw: Vec<i64> = nodes
            .iter()
            .map(|node| {
                let bad = |taint: &&Taint| taint.effect == Effect::PreferNoSchedule && !bears(&pod.tolerations, taint);
                node.taints.iter().filter(bad).count() as i64
            })
            .collect();
        let most = raw.iter().copied().max().unwrap_or(0);
        if most > 0 {
            add(3, raw.iter().map(|count| 100 - 100 * count / most).collect());
        }
        let raw: Vec<i64> = nodes
            .iter()
            .map(|node| {
                let meets = |term: &crate::model::NodeTerm| {
                    !term.never
                        && term.labels.iter().all(|wanted| wanted.accepts(node.labels.get(wanted.key), self.names))
                        && term.fields.iter().all(|field| (node.name == field.name) == field.wanted)
                };
                pod.node_preferred.iter().filter(|(_, term)| meets(term)).map(|(weight, _)| weight).sum()
            })
            .collect();
        let most = raw.iter().copied().max().unwrap_or(0);
        if most > 0 {
            add(2, raw.iter().map(|sum| 100 * sum / most).collect());
        }
        add(2, self.affinity_scores(pod, nodes));
        add(2, self.spread_scores(pod, nodes, default_spread));
        add(1, nodes.iter().map(|node| self.image_score(pod, node)).collect());
        totals
    }

    fn least_allocated(&self, pod: &PodSpec, node: &NodeInfo) -> i64 {
        let (mut sum, mut parts) = (0, 0);
        for (at, resource) in [Res::CPU, Res::MEMORY].into_iter().enumerate() {
            let capacity = node.allocatable(resource);
            if capacity == 0 {
                continue;
            }
            let wanted = self.on(node).map(|other| other.nonzero[at]).sum::<i64>() + pod.nonzero[at];
            parts += 1;
            if wanted <= capacity {
                sum += (capacity - wanted) * 100 / capacity;
            }
        }
        if parts == 0 { 0 } else { sum / parts }
    }

    fn balanced(&self, pod: &PodSpec, node: &NodeInfo) -> i64 {
        let mut fractions = Vec::new();
        for resource in [Res::CPU, Res::MEMORY] {
            let capacity = node.allocatable(resource);
            if capacity != 0 {
                let used: i64 = self.on(node).map(|other| other.request(resource)).sum::<i64>() + pod.request(resource);
                fractions.push((used as f64 / capacity as f64).min(1.0));
            }
        }
        let deviation = if fractions.len() == 2 { ((fractions[0] - fractions[1]) / 2.0).abs() } else { 0.0 };
        ((1.0 - deviation) * 100.0) as i64
    }

    fn image_score(&self, pod: &PodSpec, node: &NodeInfo) -> i64 {
        if pod.images.is_empty() {
            return 0;
        }
        const MEBI: i64 = 1 << 20;
        let mut sum = 0;
        for image in &pod.images {
            let has = |node: &NodeInfo| node.images.iter().find(|(name, _)| name == image).map(|(_, size)| *size);
            if let Some(size) = has(node) {
                let holders = self.nodes.iter().filter(|node| has(node).is_some()).count();
                sum += (size as f64 * (holders as f64 / self.nodes.len() as f64)) as i64;
            }
        }
        let most = 1000 * MEBI * pod.images.len() as i64;
        100 * (sum.clamp(23 * MEBI, most) - 23 * MEBI) / (most - 23 * MEBI)
    }

    fn affinity_scores(&self, pod: &PodSpec, nodes: &[&NodeInfo]) -> Vec<i64> {
        let raw: Vec<i64> = nodes
            .iter()
            .map(|node| {
                let mut sum = 0;
                for (weight, term) in &pod.preferred {
                    let matching = |other: &&&PodInfo| self.speaks_of(&term.matcher, &other.spec);
                    sum += weight * self.together(node, term.topology).iter().filter(matching).count() as i64;
                }
                for (other, at) in &self.pods {
                    let Some(at) = self.node(*at) else { continue };
                    let shares = |term: &PodTerm| {
                        let value = at.labels.get(term.topology);
                        value.is_some() && value == node.labels.get(term.topology)
                    };
                    for term in &other.spec.affinity {
                        sum += i64::from(shares(term) && self.speaks_of(&term.matcher, pod));
                    }
                    for (weight, term) in &other.spec.preferred {
                        if shares(term) && self.speaks_of(&term.matcher, pod) {
                            sum += weight;
                        }
                    }
                }
                sum
            })
            .collect();
        let (least, most) = (raw.iter().min().copied().unwrap_or(0), raw.iter().max().copied().unwrap_or(0));
        raw.iter()
            .map(|sum| if most > least { (100.0 * ((sum - least) as f64 / (most - least) as f64)) as i64 } else { 0 })
            .collect()
    }

    fn spread_scores(&self, pod: &PodSpec, nodes: &[&NodeInfo], default_spread: Option<&Selector>) -> Vec<i64> {
        let default: Vec<Spread> = default_spread
            .filter(|_| pod.spread.is_empty())
            .map(|selector| {
                [(Sym::HOSTNAME, 3), (Sym::ZONE, 5)].map(|(topology, max_skew)| Spread {
                    topology,
                    max_skew,
                    hard: false,
                    selector: selector.clone(),
                    min_domains: 1,
                    honor_affinity: true,
                    honor_taints: false,
                })
            })
            .into_iter()
            .flatten()
            .collect();
        let all_keys = !pod.spread.is_empty();
        let rules: Vec<&Spread> = default.iter().chain(pod.spread.iter()).filter(|rule| !rule.hard).collect();
        if rules.is_empty() {
            return vec![0; nodes.len()];
        }
        let scored = |node: &NodeInfo| !all_keys || rules.iter().all(|rule| node.labels.get(rule.topology).is_some());
        let weights: Vec<f64> = rules
            .iter()
            .map(|rule| {
                let values: std::collections::BTreeSet<Option<Sym>> =
                    nodes.iter().filter(|node| scored(node)).map(|node| node.labels.get(rule.topology)).collect();
                let size = if rule.topology == Sym::HOSTNAME {
                    nodes.iter().filter(|node| scored(node)).count()
                } else {
                    values.len()
                };
                ((size + 2) as f64).ln()
            })
            .collect();
        let raw: Vec<Option<i64>> = nodes
            .iter()
            .map(|node| {
                scored(node).then(|| {
                    let mut score = 0.0;
                    for (rule, weight) in rules.iter().zip(&weights) {
                        let Some(value) = node.labels.get(rule.topology) else { continue };
                        let count = if rule.topology == Sym::HOSTNAME {
                            self.spread_count(pod, rule, node)
                        } else {
                            let counted = |other: &&Arc<NodeInfo>| {
                                other.labels.get(rule.topology) == Some(value)
                                    && self.counted(pod, &rules, rule, other, all_keys)
                            };
                            self.nodes.iter().filter(counted).map(|other| self.spread_count(pod, rule, other)).sum()
                        };
                        score += count as f64 * weight + f64::from(rule.max_skew - 1);
                    }
                    score.round() as i64
                })
            })
            .collect();
        let most = raw.iter().flatten().copied().max().unwrap_or(0);
        let least = raw.iter().flatten().copied().min().unwrap_or(0);
        raw.iter()
            .map(|score| score.map_or(0, |score| if most == 0 { 100 } else { 100 * (most + least - score) / most }))
            .collect()
    }
}
