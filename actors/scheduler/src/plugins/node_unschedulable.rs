//! NodeUnschedulable: a cordoned node takes only pods that tolerate the `unschedulable` taint.

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Reason, Scope, Tally};
use crate::intern::Sym;
use crate::model::{Effect, PodInfo, PodSpec, Taint, tolerated};
use crate::plugin::Plugin;

/// The row of NodeUnschedulable in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "NodeUnschedulable",
    filter: Some(compile),
    events: kind::NODE_ADDED | kind::NODE_CHANGED | kind::ITSELF,
    hint: Some(hint),
    ..Plugin::NONE
};

const REASON: Reason = Reason::Text("node(s) were unschedulable");
const CORDON: Taint = Taint { key: Sym::UNSCHEDULABLE, value: Sym::EMPTY, effect: Effect::NoSchedule };

struct NodeUnschedulable;

fn exempt(spec: &PodSpec) -> bool {
    tolerated(&spec.tolerations, &CORDON)
}

fn compile(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    (!exempt(&cluster.spec(spec)?.spec)).then(|| Box::new(NodeUnschedulable) as Box<dyn Filter>)
}

impl Filter for NodeUnschedulable {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        out.union_with(&cluster.nodes.unschedulable);
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        cluster.nodes.unschedulable.contains(node)
    }

    fn explain(&self, _: &Cluster, failed: &BitSet, tally: &mut Tally) {
        tally.add_all(REASON, failed, false);
    }
}

fn hint(_: &Cluster, _: &PodInfo, event: &Event<'_>) -> bool {
    match event {
        Event::NodeAdded(node) => !node.unschedulable,
        Event::NodeChanged { old, new } => old.unschedulable && !new.unschedulable,
        Event::Itself { old, new } => old.spec.tolerations.len() != new.spec.tolerations.len() && exempt(&new.spec),
        _ => false,
    }
}
