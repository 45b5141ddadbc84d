//! The scheduling framework: upstream's extension points, adapted to node state in columns.
//!
//! PreFilter and PreScore are *compilation*: a plugin inspects a class of pods once and returns the compiled [`Filter`] or
//! [`Score`] that runs for every pod of that class (or `None`: upstream's `Skip`). Filters then fill the set of failing
//! nodes, scores a column of 0..=100; normalising is the last step inside a cluster-wide score.
//!
//! A plugin's row of functions is in [`crate::plugin`], what a PostFilter is given and returns in [`crate::post_filter`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::intern::{Interner, Res};
use crate::model::PodInfo;

/// The best score of a plugin (upstream: `MaxNodeScore`).
pub(crate) const MAX_SCORE: i32 = 100;

/// Why a plugin rejected a node (or a pod).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    /// Upstream's fixed text.
    Text(&'static str),
    /// `Insufficient <resource>`.
    Insufficient(Res),
    /// The plugin's PreFilter limited the pod to certain nodes, and this node is not among them.
    NotNamedBy(&'static str),
}

impl Reason {
    /// Returns upstream's text of the reason.
    pub(crate) fn text(self, names: &Interner) -> String {
        match self {
            Self::Text(text) => text.to_owned(),
            Self::Insufficient(resource) => format!("Insufficient {}", names.resource_name(resource)),
            Self::NotNamedBy(plugin) => format!("node(s) didn't satisfy plugin(s) [{plugin}]"),
        }
    }
}

/// Number of nodes per reason, and the nodes where preemption cannot help.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// How many nodes gave each reason.
    pub(crate) reasons: BTreeMap<Reason, usize>,
    /// Nodes whose reason does not depend on the pods on them (upstream: `UnschedulableAndUnresolvable`).
    pub(crate) unresolvable: BitSet,
}

impl Tally {
    /// Counts one reason for all `nodes`.
    pub(crate) fn add_all(&mut self, reason: Reason, nodes: &BitSet, resolvable: bool) {
        let count = nodes.len();
        if count > 0 {
            *self.reasons.entry(reason).or_default() += count;
        }
        if !resolvable {
            self.unresolvable.union_with(nodes);
        }
    }

    /// Counts one reason for one node.
    pub(crate) fn add(&mut self, reason: Reason, node: NodeIx, resolvable: bool) {
        *self.reasons.entry(reason).or_default() += 1;
        if !resolvable {
            self.unresolvable.insert(node);
        }
    }

    /// Returns the reasons as upstream lists them: `<count> <reason>`, sorted as text.
    pub(crate) fn text(&self, names: &Interner) -> String {
        let mut lines: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{count} {}", reason.text(names))).collect();
        lines.sort();
        lines.join(", ")
    }
}

/// The state that a compiled plugin's result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The plugin has no effect now: no node fails, all nodes score alike.
    Skip,
    /// Each node's result depends on that node alone; results are cached and recomputed when the node changes.
    Node,
    /// A node's result depends on other nodes; results are recomputed for every pod.
    Cluster,
}

/// The result of PreFilter for all nodes at once (upstream: `PreFilterResult`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// No restriction.
    None,
    /// Only these nodes are candidates.
    Only(BitSet),
    /// No node is a candidate; holds the message.
    Reject(Cow<'static, str>),
}

/// A filter compiled for a class of pods.
pub(crate) trait Filter: Send {
    /// Returns the state that the result depends on. A filter never changes between `Node` and another scope.
    fn scope(&self, cluster: &Cluster) -> Scope;

    /// Returns the restriction that holds without inspecting nodes (upstream: `PreFilterResult`).
    fn limit(&self, _cluster: &Cluster) -> Limit {
        Limit::None
    }

    /// Adds every failing node to `out`.
    fn reject(&self, cluster: &Cluster, out: &mut BitSet);

    /// Whether one node fails; agrees with [`Filter::reject`].
    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool;

    /// Counts the reason of each node in `failed`.
    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally);
}

/// A score compiled for a class of pods.
pub(crate) trait Score: Send {
    /// Returns the state that the score depends on. A score never changes between `Node` and another scope.
    fn scope(&self, cluster: &Cluster) -> Scope;

    /// Returns a fingerprint of shared state; when it changes, all nodes' scores of scope `Node` are computed again.
    fn fingerprint(&self, _cluster: &Cluster) -> u64 {
        0
    }

    /// Adds `weight` times the normalised score of every feasible node to `out`. Values of other nodes are ignored.
    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]);

    /// Returns the score of one node; agrees with [`Score::score`] where the scope is `Node`.
    fn score_node(&self, _cluster: &Cluster, _node: NodeIx) -> i32 {
        0
    }
}

/// Why a pod fits on no node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Diagnosis {
    /// Number of nodes in the cluster.
    pub(crate) nodes: usize,
    /// The message with which a PreFilter rejected the pod on all nodes.
    pub(crate) rejected: Option<Cow<'static, str>>,
    /// Why each node failed.
    pub(crate) tally: Tally,
    /// The plugins that rejected a node or the pod: bit i for plugin i of the set.
    pub(crate) rejectors: u32,
}

/// An API write that the actor performs for PreBind and Bind, or for a preemption.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    /// Create the `binding` subresource.
    Bind,
    /// Write the node into the pod's `status.nominatedNodeName`.
    Nominate,
    /// Clear `status.nominatedNodeName` of these pods: the node may have no room for them any more.
    Denominate(Vec<Arc<PodInfo>>),
    /// Write the `DisruptionTarget` condition of these pods and delete them.
    Evict(Vec<Arc<PodInfo>>),
}

/// Order of the active queue: pods with smaller keys are scheduled earlier.
pub(crate) type SortKey = (std::cmp::Reverse<i32>, u64);

/// PreFilter and Filter: compiles a class; `None` when the plugin has no effect on the class.
pub(crate) type CompileFilter = fn(&Cluster, SpecId) -> Option<Box<dyn Filter>>;
/// PreScore, Score and NormalizeScore: compiles a class; `None` when all nodes score alike.
pub(crate) type CompileScore = fn(&Cluster, SpecId) -> Option<Box<dyn Score>>;
