//! A shard: finds a node for a waiting pod and proposes it, or reports why the pod fits on no node. The arbiter decides.

use std::sync::Arc;

use crate::class::{Choose, Class, Scratch};
use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::filters::Filters;
use crate::framework::Diagnosis;
use crate::map::Map;
use crate::model::{PodInfo, PodSpec};
use crate::plugin::Plugins;

/// Bound of cached classes per shard. The least recently used class is evicted, which only costs time.
const MAX_CLASSES: usize = 512;

/// A shard's proposal: a pod, a node, and the state in which the node was chosen.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// The node's slot in the shard's cluster.
    pub(crate) node: NodeIx,
    /// The position in the cluster's log of changes when the node was chosen.
    pub(crate) seen: u64,
}

/// The result of a shard's search for a node.
#[derive(Clone, Debug)]
pub(crate) enum ShardResult {
    /// A node is proposed.
    Place(Proposal),
    /// No node fits.
    Unschedulable(Arc<Diagnosis>),
    /// The cluster has no nodes.
    NoNodes,
}

/// One shard's cached classes and scratch memory.
pub(crate) struct Shard {
    plugins: Plugins,
    classes: Map<Arc<PodSpec>, Class>,
    scratch: Scratch,
    decisions: u64,
}

impl Shard {
    /// A shard without cached classes that runs these plugins.
    pub(crate) fn new(plugins: Plugins) -> Self {
        Self { plugins, classes: Map::default(), scratch: Scratch::default(), decisions: 0 }
    }

    /// Searches a node for a pod.
    pub(crate) fn propose(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        choose: &mut Choose<'_>,
    ) -> ShardResult {
        if cluster.nodes.count == 0 {
            return ShardResult::NoNodes;
        }
        self.decisions += 1;
        if !self.classes.contains_key(&pod.spec) {
            self.make_room(cluster);
        }
        let class =
            self.classes.entry(Arc::clone(&pod.spec)).or_insert_with(|| Class::open(self.plugins, cluster, &pod.spec));
        class.last_used = self.decisions;
        let reserved = cluster.reserved(pod);
        // A node nominated by an earlier preemption goes first (upstream: evaluateNominatedNode).
        let nominated = cluster.nominations.node_of(&pod.uid).and_then(|name| cluster.nodes.find(name));
        let node = match nominated.filter(|node| class.fits(cluster, *node, &reserved)) {
            Some(node) => Some(node),
            None => class.select(cluster, &mut self.scratch, &reserved, choose),
        };
        match node {
            Some(node) => ShardResult::Place(Proposal { pod: Arc::clone(pod), node, seen: cluster.sequence() }),
            None => ShardResult::Unschedulable(class.diagnose(cluster, &reserved)),
        }
    }

    /// Returns the compiled filters of a pod that [`Shard::propose`] has just searched a node for.
    pub(crate) fn filters(&self, pod: &PodInfo) -> Option<&Filters> {
        self.classes.get(&pod.spec).map(|class| &class.filters)
    }

    fn make_room(&mut self, cluster: &mut Cluster) {
        if self.classes.len() < MAX_CLASSES {
            return;
        }
        // `last_used` differs between classes, so the order of the map decides nothing.
        let oldest = self.classes.values().min_by_key(|class| class.last_used).map(|class| Arc::clone(&class.spec));
        if let Some(class) = oldest.and_then(|spec| self.classes.remove(&spec)) {
            class.close(cluster);
        }
    }

    /// Returns the feasible nodes and their scores, for tests.
    #[cfg(test)]
    pub(crate) fn totals(&mut self, cluster: &mut Cluster, pod: &Arc<PodInfo>) -> Vec<(NodeIx, i32)> {
        let class =
            self.classes.entry(Arc::clone(&pod.spec)).or_insert_with(|| Class::open(self.plugins, cluster, &pod.spec));
        class.totals(cluster)
    }
}
