//! Controllers of nodes and of what becomes of pods with them.

pub(crate) mod node_lifecycle;
pub(crate) mod pods_by_node;
pub(crate) mod taint_eviction;
pub(crate) mod ttl;
