//! The outcome of a binding or preemption.

use std::sync::Arc;

use oarlock_client::Fence;

use crate::engine::Unfit;
use crate::model::PodInfo;
use crate::queue::Popped;

use super::inbox::Slot;

/// Why a binding or preemption failed.
#[derive(Debug)]
pub(super) struct Unbound {
    /// The text for the pod's condition and Event.
    pub(super) text: String,
    /// The pod's revision with its nomination, if that was written before the failure; some victims may be terminating.
    pub(super) nominated: Option<u64>,
    /// Whether the failure is not reported: the pod is deleted, or this incarnation is shutting down.
    pub(super) unreported: bool,
    /// The claim, if the API refused a write as stale because another process is the arbiter now.
    pub(super) stale: Option<Fence>,
}

/// The queue or process that asked for a decision.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// A binding of a pod of this process's own queue.
    Own(Popped),
    /// A preemption for a pod of this process's own queue that fits on no node.
    OwnPreemption(Unfit),
    /// A proposal of another process, with the address of its verdict.
    Proposed(Slot),
}

/// The result of successful writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The pod is bound.
    Bound,
    /// The pod is nominated and its victims are being evicted; holds the pod's revision with the nomination.
    Nominated(u64),
}

/// The outcome of a binding or preemption.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The queue or process that asked for the decision.
    pub(super) origin: Origin,
    /// The pod.
    pub(super) pod: Arc<PodInfo>,
    /// The node.
    pub(super) node: Arc<str>,
    /// The result of the writes, or why they failed.
    pub(super) result: Result<Done, Unbound>,
}
