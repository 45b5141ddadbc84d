//! Controllers of group `apps`.

pub(crate) mod deployment;
pub(crate) mod replicaset;
