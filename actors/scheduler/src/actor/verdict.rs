//! What shards and the arbiter of another process say to each other.

use oarlock_meta::Revision;

/// Where a shard would put a pod, or for which node it would have others leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proposed {
    /// The pod.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Its revision, as the shard knows it.
    pub(super) version: Revision,
    /// The node's name.
    pub(super) node: String,
    /// Uids of the pods that have to leave the node first. Then the pod is not to be bound, but nominated.
    pub(super) victims: Vec<String>,
}

/// Some proposals of one process. Without any it only says that the process is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// Whose decision is asked for: the epoch of the arbiter's unit.
    pub(super) epoch: Revision,
    /// How far the shard's cache of pods had come.
    pub(super) seen: Revision,
    /// The shards that the process acts for, one bit each.
    pub(super) shards: u32,
    /// At most [`super::proposals::BATCH`].
    pub(super) proposals: Vec<Proposed>,
}

/// What came of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The pod is bound to the node.
    Bound,
    /// The pod is nominated to the node, and the victims are told to leave.
    Nominated {
        /// The pod's revision with its nomination.
        revision: Revision,
    },
    /// A hard constraint would be broken.
    Refused {
        /// Which, in a word.
        constraint: String,
        /// What the arbiter saw.
        text: String,
        /// How far its cache of pods had come.
        seen: Revision,
    },
    /// The pod is certainly not bound, or a preemption stopped half way.
    Failed {
        /// What users are told.
        text: String,
    },
    /// Whoever was asked does not decide (any more); who does knows of anything that was done.
    Stale,
}
