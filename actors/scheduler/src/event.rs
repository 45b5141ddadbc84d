//! What can happen in the cluster that may make a waiting pod schedulable.

use crate::intern::Sym;
use crate::model::{NodeInfo, PodInfo};

/// Kinds of events, as bits of a set.
pub(crate) mod kind {
    /// A node is new.
    pub(crate) const NODE_ADDED: u8 = 1;
    /// A node changed.
    pub(crate) const NODE_CHANGED: u8 = 1 << 1;
    /// A node is gone.
    pub(crate) const NODE_GONE: u8 = 1 << 2;
    /// A pod has a node now.
    pub(crate) const POD_ASSIGNED: u8 = 1 << 3;
    /// A pod that has a node changed.
    pub(crate) const POD_CHANGED: u8 = 1 << 4;
    /// A pod that had a node is gone.
    pub(crate) const POD_GONE: u8 = 1 << 5;
    /// The waiting pod itself changed.
    pub(crate) const ITSELF: u8 = 1 << 6;
    /// A claim of volumes or devices, or a volume or class, changed.
    pub(crate) const CLAIM: u8 = 1 << 7;
}

/// An event that queueing hints are asked about (upstream: `fwk.ClusterEvent` with its objects).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A node is new.
    NodeAdded(&'a NodeInfo),
    /// A node changed.
    NodeChanged {
        /// Before.
        old: &'a NodeInfo,
        /// After.
        new: &'a NodeInfo,
    },
    /// A node is gone.
    NodeGone(&'a NodeInfo),
    /// A pod has a node now.
    PodAssigned(&'a PodInfo),
    /// A pod that has a node changed.
    PodChanged {
        /// Before.
        old: &'a PodInfo,
        /// After.
        new: &'a PodInfo,
    },
    /// A pod that had a node, or was about to, is gone.
    PodGone(&'a PodInfo),
    /// The waiting pod itself changed.
    Itself {
        /// Before.
        old: &'a PodInfo,
        /// After.
        new: &'a PodInfo,
    },
    /// A claim of a volume or of devices is new or changed.
    Claim {
        /// Its namespace.
        namespace: Sym,
        /// Its name.
        name: Sym,
    },
    /// A volume or a class of volumes or devices is new or changed.
    ClaimSource,
    /// Ask every plugin's pods to try again (upstream: `UnschedulableTimeout`).
    Everything,
}

impl Event<'_> {
    /// The kind of the event; all of them for [`Event::Everything`].
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
