//! The scheduling framework: upstream's extension points in the shape that columns want.
//!
//! A plugin is a row ([`Plugin`]) of functions, one per extension point it has. PreFilter and PreScore are
//! *compilation*: [`Plugin::filter`] and [`Plugin::score`] look at a class of pods once and return what will be
//! asked for every pod of that class (or nothing: upstream's `Skip`). Filters then fill a set of nodes that
//! fail, scores a column of 0..=100; normalising is the last step inside a cluster-wide score.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::Event;
use crate::filters::Filters;
use crate::intern::{Interner, Res};
use crate::model::PodInfo;
use crate::preempt::Preemption;

/// The best score of a plugin (upstream: `MaxNodeScore`).
pub(crate) const MAX_SCORE: i32 = 100;

/// Why a node (or a pod) was turned down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    /// Upstream's fixed text.
    Text(&'static str),
    /// `Insufficient <resource>`.
    Insufficient(Res),
    /// The plugin named the only nodes that could do, and this is none of them.
    NotNamedBy(&'static str),
}

impl Reason {
    /// Upstream's text of the reason.
    pub(crate) fn text(self, names: &Interner) -> String {
        match self {
            Self::Text(text) => text.to_owned(),
            Self::Insufficient(resource) => format!("Insufficient {}", names.resource_name(resource)),
            Self::NotNamedBy(plugin) => format!("node(s) didn't satisfy plugin(s) [{plugin}]"),
        }
    }
}

/// Reasons counted over nodes, and which nodes no preemption can help.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// How many nodes gave each reason.
    pub(crate) reasons: BTreeMap<Reason, usize>,
    /// Nodes whose reason would stay if pods were removed from them (upstream: `UnschedulableAndUnresolvable`).
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

    /// The reasons as upstream lists them: `<count> <reason>`, sorted as text.
    pub(crate) fn text(&self, names: &Interner) -> String {
        let mut lines: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{count} {}", reason.text(names))).collect();
        lines.sort();
        lines.join(", ")
    }
}

/// What a compiled plugin's answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It has nothing to say now: no node fails, all nodes score alike.
    Skip,
    /// Each node's answer depends on that node alone, so it is kept and renewed when the node changes.
    Node,
    /// A node's answer depends on others, so it is asked anew for every pod.
    Cluster,
}

/// What PreFilter says of all nodes at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// Nothing.
    None,
    /// Only these nodes can do.
    Only(BitSet),
    /// No node can do.
    Reject(Cow<'static, str>),
}

/// A filter compiled for a class of pods.
pub(crate) trait Filter: Send {
    /// What the answer depends on. Between `Node` and the others the answer never changes.
    fn scope(&self, cluster: &Cluster) -> Scope;

    /// What can be said without looking at nodes (upstream: `PreFilterResult`).
    fn limit(&self, _cluster: &Cluster) -> Limit {
        Limit::None
    }

    /// Adds every node that fails.
    fn reject(&self, cluster: &Cluster, out: &mut BitSet);

    /// Whether one node fails; agrees with [`Filter::reject`].
    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool;

    /// Says why each of `failed` failed.
    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally);
}

/// A score compiled for a class of pods.
pub(crate) trait Score: Send {
    /// What the score depends on. Between `Node` and the others the answer never changes.
    fn scope(&self, cluster: &Cluster) -> Scope;

    /// When this number changes, all nodes' scores of scope `Node` are computed again.
    fn fingerprint(&self, _cluster: &Cluster) -> u64 {
        0
    }

    /// Adds `weight` times the normalised score of every feasible node. What it adds elsewhere is not read.
    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]);

    /// The score of one node; agrees with [`Score::score`] where the scope is `Node`.
    fn score_node(&self, _cluster: &Cluster, _node: NodeIx) -> i32 {
        0
    }
}

/// Why a pod fits nowhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Diagnosis {
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// What a PreFilter rejected the pod with.
    pub(crate) rejected: Option<Cow<'static, str>>,
    /// Why each node failed.
    pub(crate) tally: Tally,
    /// Which plugins had a part in it: bit i for row i of the table.
    pub(crate) rejectors: u32,
}

/// A pod that fits nowhere, as PostFilters meet it.
pub(crate) struct PostFilterContext<'a> {
    /// The cluster, to try things out on ([`Cluster::rehearse`]).
    pub(crate) cluster: &'a mut Cluster,
    /// The pod.
    pub(crate) pod: &'a Arc<PodInfo>,
    /// Why it fits nowhere.
    pub(crate) diagnosis: &'a Diagnosis,
    /// Its compiled filters.
    pub(crate) filters: &'a Filters,
    /// Randomness.
    pub(crate) choose: &'a mut dyn FnMut(u32) -> u32,
}

/// What PostFilter came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PostFiltered {
    /// What is appended to the event.
    pub(crate) message: String,
    /// Further PostFilters do not run.
    pub(crate) stop: bool,
    /// Where the pod is expected from now on.
    pub(crate) nominating: Nominating,
}

/// Where a pod that fits nowhere is expected from now on (upstream: `NominatingInfo`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Nominating {
    /// Where it was before, if anywhere.
    #[default]
    AsBefore,
    /// Nowhere.
    Nowhere,
    /// On a node, once others have left it.
    Preempt(Preemption),
}

/// A write that the shell performs for PreBind and Bind, or for a preemption.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    /// Create the `binding` subresource.
    Bind,
    /// Write the node into the pod's `status.nominatedNodeName`.
    Nominate,
    /// Take `status.nominatedNodeName` from these pods: there may be no room for them any more.
    Denominate(Vec<Arc<PodInfo>>),
    /// Say of these pods that they are preempted, and delete them.
    Evict(Vec<Arc<PodInfo>>),
}

/// When pods go first: smaller keys leave the queue earlier.
pub(crate) type SortKey = (std::cmp::Reverse<i32>, u64);

/// PreFilter and Filter: compiles a class; `None` when the plugin has nothing to say on it.
pub(crate) type CompileFilter = fn(&Cluster, SpecId) -> Option<Box<dyn Filter>>;
/// PreScore, Score and NormalizeScore: compiles a class; `None` when all nodes score alike.
pub(crate) type CompileScore = fn(&Cluster, SpecId) -> Option<Box<dyn Score>>;
/// Reserve: takes what the pod needs beyond the columns.
pub(crate) type Reserve = fn(&mut Cluster, &PodInfo, NodeIx) -> Result<(), Reason>;
/// Permit: the last word before binding; an error gives the node back.
pub(crate) type Permit = fn(&Cluster, &PodInfo, NodeIx) -> Result<(), Reason>;

/// One plugin: what it does at each extension point.
pub(crate) struct Plugin {
    /// Upstream's name.
    pub(crate) name: &'static str,
    /// Default weight of the score.
    pub(crate) weight: i32,
    /// Holds a pod back before it is queued; returns why.
    pub(crate) pre_enqueue: Option<fn(&PodInfo) -> Option<String>>,
    /// Orders the active queue by pod and time of queueing.
    pub(crate) queue_sort: Option<fn(&PodInfo, u64) -> SortKey>,
    /// PreFilter and Filter.
    pub(crate) filter: Option<CompileFilter>,
    /// What to do about a pod that fits nowhere.
    pub(crate) post_filter: Option<fn(&mut PostFilterContext<'_>) -> PostFiltered>,
    /// PreScore, Score and NormalizeScore.
    pub(crate) score: Option<CompileScore>,
    /// Takes what the pod needs beyond the columns.
    pub(crate) reserve: Option<Reserve>,
    /// Gives it back; must be harmless when nothing was taken.
    pub(crate) unreserve: Option<fn(&mut Cluster, &PodInfo, NodeIx)>,
    /// The last word before binding: an error gives the node back.
    pub(crate) permit: Option<Permit>,
    /// Writes that must be done before the binding.
    pub(crate) pre_bind: Option<fn(&PodInfo) -> Vec<Call>>,
    /// The binding; the first plugin that returns one binds.
    pub(crate) bind: Option<fn(&PodInfo) -> Option<Call>>,
    /// Told after a successful binding.
    pub(crate) post_bind: Option<fn(&mut Cluster, &PodInfo)>,
    /// The kinds of events that `hint` is asked about (upstream: `EventsToRegister`), bits of [`crate::event::kind`].
    pub(crate) events: u8,
    /// Whether an event may make a pod schedulable that this plugin turned down (upstream: queueing hints).
    pub(crate) hint: Option<fn(&Cluster, &PodInfo, &Event<'_>) -> bool>,
}

impl Plugin {
    /// A plugin that does nothing anywhere: the base of every row.
    pub(crate) const NONE: Self = Self {
        name: "",
        weight: 0,
        pre_enqueue: None,
        queue_sort: None,
        filter: None,
        post_filter: None,
        score: None,
        reserve: None,
        unreserve: None,
        permit: None,
        pre_bind: None,
        bind: None,
        post_bind: None,
        events: 0,
        hint: None,
    };
}
