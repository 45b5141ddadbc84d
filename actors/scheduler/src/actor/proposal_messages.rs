//! Messages between a shard and the arbiter of another process: proposals and their verdicts.

use oarlock_meta::Revision;

/// A shard's proposal to bind a pod to a node, or to preempt other pods on a node for the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proposed {
    /// The pod's namespace.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The pod's revision in the shard's cache.
    pub(super) version: Revision,
    /// The node's name.
    pub(super) node: String,
    /// Uids of the pods to evict from the node first. If not empty, the pod is to be nominated instead of bound.
    pub(super) victims: Vec<String>,
}

/// A batch of proposals of one process. An empty batch is a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// The epoch of the arbiter that shall decide.
    pub(super) epoch: Revision,
    /// The revision of the shard's pod cache.
    pub(super) seen: Revision,
    /// The shards that the process acts for, one bit each.
    pub(super) shards: u32,
    /// At most [`super::proposals::MAX_BATCH`].
    pub(super) proposals: Vec<Proposed>,
}

/// The arbiter's verdict on one proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProposalVerdict {
    /// The pod is bound to the node.
    Bound,
    /// The pod is nominated to the node, and the victims are being evicted.
    Nominated {
        /// The pod's revision with its nomination.
        revision: Revision,
    },
    /// A hard constraint would be broken.
    Refused {
        /// The constraint's label.
        constraint: String,
        /// Details of the state in which the arbiter refused the proposal.
        text: String,
        /// The revision of the arbiter's pod cache.
        seen: Revision,
    },
    /// The pod is certainly not bound, or a preemption stopped half way.
    Failed {
        /// The text for the pod's condition and Event.
        text: String,
    },
    /// The asked process is not the arbiter of the batch's epoch. The current arbiter knows of every write that was made.
    Stale,
}
