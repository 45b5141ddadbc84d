//! The extension point PostFilter: what a plugin is given about a pod that fits on no node, and what the plugin returns.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::filters::Filters;
use crate::framework::Diagnosis;
use crate::model::PodInfo;

/// Input of a PostFilter plugin: a pod that fits on no node, with the state needed to help it.
pub(crate) struct PostFilterContext<'a> {
    /// The cluster, for tentative changes ([`Cluster::rehearse`]).
    pub(crate) cluster: &'a mut Cluster,
    /// The pod.
    pub(crate) pod: &'a Arc<PodInfo>,
    /// Why the pod fits on no node.
    pub(crate) diagnosis: &'a Diagnosis,
    /// The pod's compiled filters.
    pub(crate) filters: &'a Filters,
    /// Whether the plugin itself is among those that rejected a node or the pod.
    pub(crate) is_rejector: bool,
    /// Source of randomness: returns a number below its argument.
    pub(crate) choose: &'a mut dyn FnMut(u32) -> u32,
}

/// The result of a PostFilter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PostFiltered {
    /// The text to append to the pod's message.
    pub(crate) message: String,
    /// Whether the remaining PostFilters are skipped.
    pub(crate) stop: bool,
    /// The change of the pod's nomination.
    pub(crate) nominating: Nominating,
}

/// A change of the nomination of a pod that fits on no node (upstream: `NominatingInfo`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Nominating {
    /// The nomination, if any, stays.
    #[default]
    AsBefore,
    /// The nomination is cleared.
    Nowhere,
    /// The pod is nominated to a node from which victims are evicted.
    Preempt(Preemption),
}

/// A preemption that a PostFilter has found: a node on which a pod will fit once `victims` are deleted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Preemption {
    /// The node.
    pub(crate) node: NodeIx,
    /// The pods to evict, the most important first. Some may be terminating already.
    pub(crate) victims: Vec<Arc<PodInfo>>,
}
