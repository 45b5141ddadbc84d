//! PodTopologySpread: constraints on how unevenly matching pods may be spread over domains, hard ones as a filter,
//! soft ones (the pod's or the cluster's default) as a score.

use crate::bits::BitSet;
use crate::cluster::{Cluster, NOWHERE, SpecId, SpreadRule, TopoId};
use crate::column::NodeIx;
use crate::event::Event;
use crate::framework::{Filter, MAX_SCORE, Reason, Scope, Score, Tally};
use crate::model::{NodeInfo, PodInfo, Spread};
use crate::plugin::Plugin;

use super::arithmetic::{floor, whole};

/// The row of PodTopologySpread in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "PodTopologySpread",
    weight: 2,
    filter: Some(compile_filter),
    score: Some(compile_score),
    events: u8::MAX,
    hint: Some(hint),
    ..Plugin::NONE
};

const SKEWED: Reason = Reason::Text("node(s) didn't match pod topology spread constraints");
const UNLABELLED: Reason =
    Reason::Text("node(s) didn't match pod topology spread constraints (missing required label)");

struct PodTopologySpread(SpecId);

fn compile_filter(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    let hard = !cluster.compiled(spec)?.hard_spread.is_empty();
    hard.then(|| Box::new(PodTopologySpread(spec)) as Box<dyn Filter>)
}

fn compile_score(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    let soft = !cluster.compiled(spec)?.soft_spread.is_empty();
    soft.then(|| Box::new(PodTopologySpread(spec)) as Box<dyn Score>)
}

/// Returns the highest count with which a domain still admits the pod.
fn allowance(cluster: &Cluster, rule: &SpreadRule) -> i64 {
    let Some(counter) = cluster.counter(rule.counter) else { return i64::MAX };
    let least = if counter.domains < rule.min_domains { Some(0) } else { counter.minimum() };
    least.map_or(i64::MAX, |least| i64::from(least) + rule.max_skew - i64::from(rule.counts_itself))
}

impl PodTopologySpread {
    fn judge(&self, cluster: &Cluster, node: NodeIx) -> Option<Reason> {
        for rule in &cluster.compiled(self.0)?.hard_spread {
            let domain = cluster.topologies.domain(rule.topology, node);
            if domain == NOWHERE {
                return Some(UNLABELLED);
            }
            let count = cluster.counter(rule.counter).map_or(0, |counter| counter.count(domain));
            if i64::from(count) > allowance(cluster, rule) {
                return Some(SKEWED);
            }
        }
        None
    }
}

impl Filter for PodTopologySpread {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Cluster
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        let Some(compiled) = cluster.compiled(self.0) else { return };
        let mut failing = BitSet::default();
        for rule in &compiled.hard_spread {
            let Some(counter) = cluster.counter(rule.counter) else { continue };
            let (counts, most) = (counter.counts(), allowance(cluster, rule));
            let domains = cluster.topologies.column(rule.topology);
            failing.fill(domains.iter().map(|domain| {
                let count = counts.get(*domain as usize).copied().unwrap_or(0);
                *domain == NOWHERE || i64::from(count) > most
            }));
            out.union_with(&failing);
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        self.judge(cluster, node).is_some()
    }

    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally) {
        for node in failed.iter() {
            if let Some(reason) = self.judge(cluster, node) {
                tally.add(reason, node, reason != UNLABELLED);
            }
        }
    }
}

/// Returns the number of domains of the scored nodes; nodes without the label count as one more domain.
fn domains_among(cluster: &Cluster, topology: TopoId, scored: &BitSet) -> usize {
    let column = cluster.topologies.column(topology);
    let mut seen = vec![false; cluster.topologies.size(topology).max(1)];
    let mut count = 0;
    for node in scored.iter() {
        let domain = column.get(node.at()).copied().unwrap_or(NOWHERE);
        if let Some(seen) = seen.get_mut(domain as usize)
            && !std::mem::replace(seen, true)
        {
            count += 1;
            if count == cluster.topologies.size(topology) {
                break;
            }
        }
    }
    count
}

/// Rounds to the nearest integer, halves up (upstream: `math.Round` of a non-negative number).
#[inline(always)]
fn round(value: f64) -> f64 {
    let below = floor(value);
    if value - below >= 0.5 { below + 1.0 } else { below }
}

/// Returns the smallest and the largest value of the members.
fn range(values: &[f64], members: &BitSet) -> (f64, f64) {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (word, chunk) in members.words().iter().zip(values.chunks(64)) {
        for (at, value) in chunk.iter().enumerate() {
            if word >> at & 1 == 1 {
                least = least.min(*value);
                most = most.max(*value);
            }
        }
    }
    (least, most)
}

impl Score for PodTopologySpread {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Cluster
    }

    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]) {
        let Some(compiled) = cluster.compiled(self.0) else { return };
        let mut scored = feasible.clone();
        if compiled.soft_needs_all {
            for rule in &compiled.soft_spread {
                let mut labelled = BitSet::default();
                labelled.fill(cluster.topologies.column(rule.label).iter().map(|domain| *domain != NOWHERE));
                scored.intersect_with(&labelled);
            }
        }
        let mut raw = vec![0_f64; out.len()];
        for rule in &compiled.soft_spread {
            let Some(counter) = cluster.counter(rule.counter) else { continue };
            let size = if rule.topology == TopoId::NODE {
                scored.len()
            } else {
                domains_among(cluster, rule.topology, &scored)
            };
            let per_pod = ((size + 2) as f64).ln();
            let tolerance = (rule.max_skew - 1) as f64;
            let counts = counter.counts();
            let labelled = cluster.topologies.column(rule.label);
            if rule.topology == TopoId::NODE {
                let counts = counts.iter().skip(1).copied().chain(std::iter::repeat(0));
                for ((raw, label), count) in raw.iter_mut().zip(labelled).zip(counts) {
                    if *label != NOWHERE {
                        *raw += f64::from(count) * per_pod + tolerance;
                    }
                }
            } else {
                // One product per domain instead of one per node.
                let by_domain: Vec<f64> = (0..cluster.topologies.size(rule.topology))
                    .map(|domain| f64::from(counts.get(domain).copied().unwrap_or(0)) * per_pod + tolerance)
                    .collect();
                for (raw, domain) in raw.iter_mut().zip(labelled) {
                    if *domain != NOWHERE {
                        *raw += by_domain.get(*domain as usize).copied().unwrap_or(0.0);
                    }
                }
            }
        }
        raw.iter_mut().for_each(|raw| *raw = round(*raw));
        let (least, most) = range(&raw, &scored);
        let best = f64::from(MAX_SCORE);
        // All in whole numbers below 2^53: the quotient's floor is exact, as in the resource scores.
        let normalised = |raw: f64| if most == 0.0 { best } else { floor(best * (most + least - raw) / most) };
        if scored == *feasible {
            for (total, raw) in out.iter_mut().zip(&raw) {
                *total += weight * whole(normalised(*raw));
            }
            return;
        }
        for node in scored.iter() {
            if let Some((total, raw)) = out.get_mut(node.at()).zip(raw.get(node.at())) {
                *total += weight * whole(normalised(*raw));
            }
        }
    }
}

fn matches_any(cluster: &Cluster, pod: &PodInfo, other: &PodInfo) -> bool {
    pod.spec.spread.iter().any(|rule| rule.selector.matches(&other.spec.labels, &cluster.names))
}

fn labelled(rules: &[Spread], node: &NodeInfo) -> bool {
    rules.iter().filter(|rule| rule.hard).all(|rule| node.labels.get(rule.topology).is_some())
}

fn hint(cluster: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    let rules = &pod.spec.spread;
    let here = |other: &PodInfo| other.spec.namespace == pod.spec.namespace;
    match event {
        Event::PodAssigned(other) | Event::PodGone(other) => here(other) && matches_any(cluster, pod, other),
        Event::PodChanged { old, new } => {
            // A terminating pod is no longer counted.
            let ends = !old.terminating && new.terminating && matches_any(cluster, pod, new);
            here(new) && (ends || matches_any(cluster, pod, old) != matches_any(cluster, pod, new))
        }
        Event::Itself { old, new } => {
            let tolerates = old.spec.tolerations.len() != new.spec.tolerations.len();
            (tolerates && rules.iter().any(|rule| rule.honor_taints)) || old.spec.labels != new.spec.labels
        }
        Event::NodeAdded(node) | Event::NodeGone(node) => labelled(rules, node),
        Event::NodeChanged { old, new } => {
            let (was, is) = (labelled(rules, old), labelled(rules, new));
            let moved = rules.iter().any(|rule| old.labels.get(rule.topology) != new.labels.get(rule.topology));
            was != is || (is && (moved || old.taints != new.taints))
        }
        Event::Claim { .. } | Event::ClaimSource | Event::Everything => false,
    }
}
