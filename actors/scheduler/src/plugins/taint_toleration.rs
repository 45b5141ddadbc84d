//! TaintToleration: untolerated NoSchedule and NoExecute taints reject a node, untolerated PreferNoSchedule taints
//! lower its score.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, MAX_SCORE, Reason, Scope, Score, Tally};
use crate::model::{Effect, NodeInfo, PodInfo, PodSpec, Taint, tolerated};
use crate::plugin::Plugin;

/// The row of TaintToleration in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "TaintToleration",
    weight: 3,
    filter: Some(compile_filter),
    score: Some(compile_score),
    events: kind::NODE_ADDED | kind::NODE_CHANGED | kind::ITSELF,
    hint: Some(hint),
    ..Plugin::NONE
};

const REASON: Reason = Reason::Text("node(s) had untolerated taint(s)");

struct TaintToleration(Arc<PodSpec>);

fn compile(cluster: &Cluster, spec: SpecId) -> Option<TaintToleration> {
    Some(TaintToleration(Arc::clone(&cluster.spec(spec)?.spec)))
}

fn compile_filter(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    Some(Box::new(compile(cluster, spec)?))
}

fn compile_score(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    Some(Box::new(compile(cluster, spec)?))
}

fn repels(spec: &PodSpec, taint: Taint) -> bool {
    taint.effect != Effect::PreferNoSchedule && !tolerated(&spec.tolerations, &taint)
}

fn fits(spec: &PodSpec, node: &NodeInfo) -> bool {
    !node.taints.iter().any(|taint| repels(spec, *taint))
}

impl Filter for TaintToleration {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        for row in cluster.nodes.taints() {
            if row.count > 0 && repels(&self.0, row.taint) {
                out.union_with(&row.nodes);
            }
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        cluster.nodes.info(node).is_some_and(|info| !fits(&self.0, info))
    }

    fn explain(&self, _: &Cluster, failed: &BitSet, tally: &mut Tally) {
        tally.add_all(REASON, failed, false);
    }
}

impl Score for TaintToleration {
    fn scope(&self, cluster: &Cluster) -> Scope {
        let unwelcome = |taint| tolerated(&self.0.tolerations, &taint);
        if cluster.nodes.any_taint(Effect::PreferNoSchedule, unwelcome) { Scope::Cluster } else { Scope::Skip }
    }

    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]) {
        let mut counts = vec![0_i32; out.len()];
        let mut most = 0;
        for row in cluster.nodes.taints() {
            let counted = row.count > 0
                && row.taint.effect == Effect::PreferNoSchedule
                && !tolerated(&self.0.tolerations, &row.taint);
            if !counted {
                continue;
            }
            for node in row.nodes.iter().filter(|node| feasible.contains(*node)) {
                if let Some(count) = counts.get_mut(node.at()) {
                    *count += 1;
                    most = most.max(*count);
                }
            }
        }
        for (total, count) in out.iter_mut().zip(counts) {
            let score = if most == 0 { MAX_SCORE } else { MAX_SCORE - MAX_SCORE * count / most };
            *total += weight * score;
        }
    }
}

fn hint(_: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    match event {
        Event::NodeAdded(node) => fits(&pod.spec, node),
        Event::NodeChanged { old, new } => !fits(&pod.spec, old) && fits(&pod.spec, new),
        Event::Itself { old, new } => old.spec.tolerations.len() != new.spec.tolerations.len(),
        _ => false,
    }
}
