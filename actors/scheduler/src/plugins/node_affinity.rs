//! NodeAffinity: `nodeSelector` and required node affinity filter, preferred node affinity scores.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId, spec_matches};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Limit, MAX_SCORE, Reason, Scope, Score, Tally};
use crate::intern::Sym;
use crate::model::{NodeTerm, PodInfo, PodSpec};
use crate::plugin::Plugin;

/// The row of NodeAffinity in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: NAME,
    weight: 2,
    filter: Some(compile_filter),
    score: Some(compile_score),
    events: kind::NODE_ADDED | kind::NODE_CHANGED,
    hint: Some(hint),
    ..Plugin::NONE
};

const NAME: &str = "NodeAffinity";
const REASON: Reason = Reason::Text("node(s) didn't match Pod's node affinity/selector");
const CONFLICT: &str = "pod affinity terms conflict";

struct NodeAffinity(Arc<PodSpec>);

fn compile_filter(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    let spec = &cluster.spec(spec)?.spec;
    let asks = !spec.node_selector.is_empty() || spec.node_required.is_some();
    asks.then(|| Box::new(NodeAffinity(Arc::clone(spec))) as Box<dyn Filter>)
}

fn compile_score(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    let spec = &cluster.spec(spec)?.spec;
    (!spec.node_preferred.is_empty()).then(|| Box::new(NodeAffinity(Arc::clone(spec))) as Box<dyn Score>)
}

/// Returns the node names that a term is limited to by `metadata.name In`; `None` if the term is not limited by name.
fn named(term: &NodeTerm) -> Option<Vec<Sym>> {
    let mut wanted = term.fields.iter().filter(|field| field.wanted).map(|field| field.name);
    let first = wanted.next()?;
    Some(if wanted.all(|name| name == first) { vec![first] } else { Vec::new() })
}

impl Filter for NodeAffinity {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn limit(&self, cluster: &Cluster) -> Limit {
        let terms = self.0.node_required.iter().flatten();
        let Some(names) = terms.map(named).collect::<Option<Vec<_>>>() else { return Limit::None };
        if names.is_empty() {
            return Limit::None;
        }
        if names.iter().all(Vec::is_empty) {
            return Limit::Reject(CONFLICT.into());
        }
        let mut only = BitSet::default();
        for node in names.iter().flatten().filter_map(|name| cluster.nodes.find(*name)) {
            only.insert(node);
        }
        Limit::Only(only)
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        let mut matching = BitSet::default();
        cluster.matching_nodes(&self.0, &mut matching);
        let mut others = cluster.nodes.live.clone();
        others.subtract(&matching);
        out.union_with(&others);
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        cluster.nodes.info(node).is_some_and(|info| !spec_matches(&self.0, info, &cluster.names))
    }

    fn explain(&self, _: &Cluster, failed: &BitSet, tally: &mut Tally) {
        tally.add_all(REASON, failed, false);
    }
}

impl Score for NodeAffinity {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Cluster
    }

    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]) {
        let mut sums = vec![0_i64; out.len()];
        let mut matching = BitSet::default();
        for (term_weight, term) in &self.0.node_preferred {
            cluster.nodes.matching_term(term, &cluster.names, &mut matching);
            matching.intersect_with(feasible);
            for node in matching.iter() {
                if let Some(sum) = sums.get_mut(node.at()) {
                    *sum += term_weight;
                }
            }
        }
        let most = sums.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return;
        }
        for (total, sum) in out.iter_mut().zip(sums) {
            *total += weight * (i64::from(MAX_SCORE) * sum / most) as i32;
        }
    }
}

fn hint(cluster: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    let matches = |node| spec_matches(&pod.spec, node, &cluster.names);
    match event {
        Event::NodeAdded(node) => matches(node),
        Event::NodeChanged { old, new } => matches(new) && !matches(old),
        // Scheduling directives of a gated pod may be tightened; upstream retries such a pod by other events only.
        _ => false,
    }
}
