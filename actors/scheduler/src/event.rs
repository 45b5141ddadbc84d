//! Cluster events that may make a waiting pod schedulable.

use crate::intern::Sym;
use crate::model::{NodeInfo, PodInfo};

/// Kinds of events, as bits of a set.
pub(crate) mod kind {
    /// A node is new.
    pub(crate) const NODE_ADDED: u8 = 1;
    /// A node changed.
    pub(crate) const NODE_CHANGED: u8 = 1 << 1;
    /// A node was deleted.
    pub(crate) const NODE_GONE: u8 = 1 << 2;
    /// A pod was assigned to a node.
    pub(crate) const POD_ASSIGNED: u8 = 1 << 3;
    /// A pod that has a node changed.
    pub(crate) const POD_CHANGED: u8 = 1 << 4;
    /// A pod that had a node was deleted.
    pub(crate) const POD_GONE: u8 = 1 << 5;
    /// The waiting pod itself changed.
    pub(crate) const ITSELF: u8 = 1 << 6;
    /// A claim of volumes or devices, or a volume or class, changed.
    pub(crate) const CLAIM: u8 = 1 << 7;
}

/// An event that queueing hints examine (upstream: `fwk.ClusterEvent` with its objects).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A node is new.
    NodeAdded(&'a NodeInfo),
    /// A node changed.
    NodeChanged {
        /// The former state.
        old: &'a NodeInfo,
        /// The new state.
        new: &'a NodeInfo,
    },
    /// A node was deleted.
    NodeGone(&'a NodeInfo),
    /// A pod was assigned to a node.
    PodAssigned(&'a PodInfo),
    /// A pod that has a node changed.
    PodChanged {
        /// The former state.
        old: &'a PodInfo,
        /// The new state.
        new: &'a PodInfo,
    },
    /// A pod that had a node, or was nominated to one, was deleted.
    PodGone(&'a PodInfo),
    /// The waiting pod itself changed.
    Itself {
        /// The former state.
        old: &'a PodInfo,
        /// The new state.
        new: &'a PodInfo,
    },
    /// A claim of a volume or of devices is new or changed.
    Claim {
        /// The claim's namespace.
        namespace: Sym,
        /// The claim's name.
        name: Sym,
    },
    /// A volume or a class of volumes or devices is new or changed.
    ClaimSource,
    /// Every waiting pod is tried again, whichever plugin rejected it (upstream: `UnschedulableTimeout`).
    Everything,
}

impl Event<'_> {
    /// Returns the event's kind; all kinds for [`Event::Everything`].
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::NodeAdded(_) => kind::NODE_ADDED,
            Self::NodeChanged { .. } => kind::NODE_CHANGED,
            Self::NodeGone(_) => kind::NODE_GONE,
            Self::PodAssigned(_) => kind::POD_ASSIGNED,
            Self::PodChanged { .. } => kind::POD_CHANGED,
            Self::PodGone(_) => kind::POD_GONE,
            Self::Itself { .. } => kind::ITSELF,
            Self::Claim { .. } | Self::ClaimSource => kind::CLAIM,
            Self::Everything => u8::MAX,
        }
    }
}
