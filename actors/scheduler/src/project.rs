//! From API objects to the scheduler's own values, at the place where an object is decoded: the informer's cache
//! keeps these and nothing else.

mod alike;
mod budget;
mod claims;
mod node;
mod owners;
mod pod;
mod requests;
mod terms;

#[cfg(test)]
mod tests;

pub(crate) use alike::{Apart, alike, like};
pub(crate) use budget::BudgetView;
pub(crate) use claims::{DeviceClaimView, DeviceClassView, StorageClassView, VolumeClaimView, VolumeView};
pub(crate) use node::{NamespaceView, NodeView};
pub(crate) use owners::{ReplicaSetView, ReplicationControllerView, SelectorOf, ServiceView, StatefulSetView};
pub(crate) use pod::{DISRUPTION_TARGET, PREEMPTED, PodView};
