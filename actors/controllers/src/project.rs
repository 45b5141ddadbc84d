//! The projections of the controllers: the fields of each kind that controllers read. The shared informers keep only these.

mod cloud;
mod controller_revision;
mod daemon_pod;
mod daemon_set;
mod deployment;
mod digest;
mod job;
mod job_pod;
mod namespace;
mod node;
mod pod;
mod replicaset;
mod service;
mod stateful_set;
mod template;

pub(crate) use cloud::{BalancedService, CloudNode};
pub(crate) use controller_revision::{ControllerRevision, history};
#[cfg(test)]
pub(crate) use daemon_pod::DaemonPod;
pub(crate) use daemon_pod::FORMER_FAILURES;
pub(crate) use daemon_set::{DaemonSet, DaemonSetState, DaemonUpdate};
pub(crate) use deployment::condition;
pub(crate) use deployment::{Amount, Condition, Deployment, DeploymentState, Strategy};
pub(crate) use digest::Digest;
#[cfg(test)]
pub(crate) use job::PerIndex;
#[cfg(test)]
pub(crate) use job::SuccessRule;
pub(crate) use job::{Action, FailureRule, Job, JobState, Mode, Requirement, TRACKING};
pub(crate) use job_pod::{FAILURES, IGNORED, INDEX, JobPod};
pub(crate) use namespace::{AccountView, CaBundle, NamespaceView, Role};
#[cfg(test)]
pub(crate) use node::NodeCondition;
pub(crate) use node::{LeaseView, NodeView, TTL, Taint};
pub(crate) use oarlock_pods::selector::read as selector;
#[cfg(test)]
pub(crate) use pod::Port;
pub(crate) use pod::{Phase, PodView, Toleration, active, next_available, target_port};
pub(crate) use replicaset::{ReplicaSet, ReplicaSetState};
pub(crate) use service::{EndpointsView, Prefers, ServicePort, ServiceView, SliceView, TargetPort};
pub(crate) use stateful_set::{ClaimDeletion, Replacement, StatefulSet, StatefulSetState};
pub(crate) use template::HASH;

use oarlock_meta::Time;

/// Parses a time field; absent and zero times are `None`.
pub(crate) fn time(text: &str) -> Option<Time> {
    Time::parse(text).ok().filter(|time| !time.is_zero())
}
