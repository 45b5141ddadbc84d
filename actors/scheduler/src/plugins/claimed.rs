//! The filter that VolumeBinding and DynamicResources share: a pod waits until its claims are satisfied, and goes to a node from which their volumes or
//! devices can be reached.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Claims, Cluster, claimed};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Limit, Reason, Scope, Tally};
use crate::intern::Interner;
use crate::model::{ClaimKind, NodeInfo, PodInfo, PodSpec};

/// The claims that the filter checks, and the functions that check them.
#[derive(Clone, Copy)]
pub(super) struct ClaimCheck {
    /// Selects the claims by their kind.
    pub(super) is: fn(ClaimKind) -> bool,
    /// Returns why the claims reject all nodes, if so.
    pub(super) refuse: fn(&Claims, &PodSpec, &Interner) -> Option<String>,
    /// Returns why the claims reject one node, if so.
    pub(super) elsewhere: fn(&Claims, &PodSpec, &NodeInfo, &Interner) -> Option<&'static str>,
}

/// The kinds of events for which [`hint`] runs.
pub(super) const EVENTS: u8 = kind::CLAIM | kind::NODE_ADDED | kind::NODE_CHANGED | kind::ITSELF;

struct Claimed {
    spec: Arc<PodSpec>,
    check: ClaimCheck,
}

/// Returns the filter, if the pod has claims that `check` selects.
pub(super) fn compile(spec: &Arc<PodSpec>, check: ClaimCheck) -> Option<Box<dyn Filter>> {
    claimed(spec, check.is).next()?;
    Some(Box::new(Claimed { spec: Arc::clone(spec), check }))
}

impl Claimed {
    fn refused(&self, cluster: &Cluster) -> Option<String> {
        (self.check.refuse)(&cluster.claims, &self.spec, &cluster.names)
    }

    fn reason(&self, cluster: &Cluster, node: NodeIx) -> Option<&'static str> {
        let info = cluster.nodes.info(node)?;
        (self.check.elsewhere)(&cluster.claims, &self.spec, info, &cluster.names)
    }
}

impl Filter for Claimed {
    /// Claims may change without any change of a node.
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Cluster
    }

    fn limit(&self, cluster: &Cluster) -> Limit {
        self.refused(cluster).map_or(Limit::None, |why| Limit::Reject(why.into()))
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        if self.refused(cluster).is_some() {
            out.union_with(&cluster.nodes.live);
            return;
        }
        for node in cluster.nodes.live.iter().filter(|node| self.reason(cluster, *node).is_some()) {
            out.insert(node);
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        self.refused(cluster).is_some() || self.reason(cluster, node).is_some()
    }

    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally) {
        for node in failed.iter() {
            if let Some(reason) = self.reason(cluster, node) {
                tally.add(Reason::Text(reason), node, false);
            }
        }
    }
}

/// Whether an event may have satisfied a claim of the pod.
pub(super) fn hint(pod: &PodInfo, event: &Event<'_>, is: fn(ClaimKind) -> bool) -> bool {
    match event {
        Event::Claim { namespace, name } => {
            *namespace == pod.spec.namespace && claimed(&pod.spec, is).any(|claimed| claimed.name == *name)
        }
        Event::ClaimSource | Event::NodeAdded(_) => true,
        Event::NodeChanged { old, new } => old.labels != new.labels,
        Event::Itself { old, new } => old.spec.claims != new.spec.claims,
        _ => false,
    }
}
