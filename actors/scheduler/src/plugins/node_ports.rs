//! NodePorts: no two pods of a node bind the same host port.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Reason, Scope, Tally};
use crate::model::{PodInfo, PodSpec};
use crate::plugin::Plugin;

/// The row of NodePorts in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "NodePorts",
    filter: Some(compile),
    events: kind::NODE_ADDED | kind::POD_GONE,
    hint: Some(hint),
    ..Plugin::NONE
};

const REASON: Reason = Reason::Text("node(s) didn't have free ports for the requested pod ports");

struct NodePorts(Arc<PodSpec>);

fn compile(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    let spec = &cluster.spec(spec)?.spec;
    (!spec.ports.is_empty()).then(|| Box::new(NodePorts(Arc::clone(spec))) as Box<dyn Filter>)
}

impl Filter for NodePorts {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        for port in &self.0.ports {
            cluster.nodes.port_taken(port, out);
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        self.0.ports.iter().any(|port| cluster.nodes.port_taken_on(port, node))
    }

    fn explain(&self, _: &Cluster, failed: &BitSet, tally: &mut Tally) {
        tally.add_all(REASON, failed, true);
    }
}

fn hint(_: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    match event {
        Event::NodeAdded(_) => true,
        Event::PodGone(gone) => {
            gone.spec.ports.iter().any(|freed| pod.spec.ports.iter().any(|wanted| wanted.clashes(freed)))
        }
        _ => false,
    }
}
