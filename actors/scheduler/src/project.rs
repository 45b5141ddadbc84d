//! Projections of API objects to the scheduler's own values. Objects are projected when they are decoded; the informer's
//! cache keeps only the projections.

mod alike;
mod budget;
mod claims;
mod node;
mod owners;
mod pod;
mod requests;
mod same;
mod terms;

#[cfg(test)]
mod tests;

pub(crate) use alike::{PodIdentity, alike, like};
pub(crate) use budget::BudgetView;
pub(crate) use claims::{DeviceClaimView, DeviceClassView, StorageClassView, VolumeClaimView, VolumeView};
pub(crate) use node::{NamespaceView, NodeView};
pub(crate) use owners::{ReplicaSetView, ReplicationControllerView, SelectorOf, ServiceView, StatefulSetView};
pub(crate) use pod::{DISRUPTION_TARGET, PREEMPTED, PodView};
