//! Decides about a node that is not ready, from the node and from the cloud's answer.

use std::time::Duration;

use oarlock_cloud::wire;
use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::cloud::node::UNINITIALIZED;
use crate::project::CloudNode;

/// The taint of a node whose machine is shut down.
pub(super) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The time for the initialization of a new node before the cloud is asked about its machine (upstream `uninitializedNodeDelay`).
const UNINITIALIZED_DELAY: Duration = Duration::from_secs(60);

/// The step before the cloud is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The node is ready.
    Nothing,
    /// The node is ready again: remove the shutdown taint.
    Untaint,
    /// The node is still being initialized: check again after this time.
    Wait(Duration),
    /// The node is not ready: ask the cloud about its machine.
    Ask,
}

pub(super) fn step(node: &Item<CloudNode>, now: Time) -> Step {
    if node.value.ready {
        return if node.value.has_taint(SHUTDOWN) { Step::Untaint } else { Step::Nothing };
    }
    let newborn = node.value.provider_id.is_empty() && node.value.has_taint(UNINITIALIZED);
    let age = node.meta.created.map_or(0, |born| now.unix().saturating_sub(born.unix()));
    let left = UNINITIALIZED_DELAY.saturating_sub(Duration::from_secs(u64::try_from(age).unwrap_or(0)));
    if newborn && !left.is_zero() { Step::Wait(left) } else { Step::Ask }
}

/// The decision after the cloud's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The machine runs; the node may become ready by itself.
    Wait,
    /// The machine is shut down: taint the node.
    Taint,
    /// The machine does not exist: delete the node.
    Delete,
}

pub(super) fn verdict(node: &CloudNode, instance: Option<&wire::Instance>) -> Verdict {
    match instance {
        None => Verdict::Delete,
        Some(instance) if instance.shutdown && !node.has_taint(SHUTDOWN) => Verdict::Taint,
        Some(_) => Verdict::Wait,
    }
}
