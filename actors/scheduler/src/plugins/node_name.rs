//! NodeName: a pod that names its node fits on no other.

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Reason, Scope, Tally};
use crate::intern::Sym;
use crate::model::PodInfo;
use crate::plugin::Plugin;

/// The row of NodeName in the table of plugins.
pub(crate) const ROW: Plugin =
    Plugin { name: "NodeName", filter: Some(compile), events: kind::NODE_ADDED, hint: Some(hint), ..Plugin::NONE };

const REASON: Reason = Reason::Text("node(s) didn't match the requested node name");

struct NodeName(Sym);

fn compile(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    let name = cluster.spec(spec)?.spec.node_name?;
    Some(Box::new(NodeName(name)))
}

impl Filter for NodeName {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        let wanted = cluster.nodes.find(self.0);
        let mut others = cluster.nodes.live.clone();
        if let Some(node) = wanted {
            others.remove(node);
        }
        out.union_with(&others);
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        cluster.nodes.name(node) != self.0
    }

    fn explain(&self, _: &Cluster, failed: &BitSet, tally: &mut Tally) {
        tally.add_all(REASON, failed, false);
    }
}

fn hint(_: &Cluster, _: &PodInfo, event: &Event<'_>) -> bool {
    matches!(event, Event::NodeAdded(_))
}
