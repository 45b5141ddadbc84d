//! Controllers of nodes, and of the eviction of pods from nodes.

pub(crate) mod node_lifecycle;
pub(crate) mod pods_by_node;
pub(crate) mod taint_eviction;
pub(crate) mod ttl;
