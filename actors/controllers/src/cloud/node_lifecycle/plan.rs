//! What is done about a node.

use std::time::Duration;

use oarlock_cloud::wire;
use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::cloud::node::UNINITIALIZED;
use crate::project::CloudNode;

/// Taint of a node whose machine is shut down.
pub(super) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// A new node of which the cloud has not said what it is is given so long (upstream `uninitializedNodeDelay`).
const NEWBORN: Duration = Duration::from_secs(60);

/// What comes first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is ready.
    Nothing,
    /// It is ready again.
    Untaint,
    /// It is only coming.
    Wait(Duration),
    /// It is not ready: the cloud knows why.
    Ask,
}

pub(super) fn step(node: &Item<CloudNode>, now: Time) -> Step {
    if node.value.ready {
        return if node.value.has_taint(SHUTDOWN) { Step::Untaint } else { Step::Nothing };
    }
    let newborn = node.value.provider_id.is_empty() && node.value.has_taint(UNINITIALIZED);
    let age = node.meta.created.map_or(0, |born| now.unix().saturating_sub(born.unix()));
    let left = NEWBORN.saturating_sub(Duration::from_secs(u64::try_from(age).unwrap_or(0)));
    if newborn && !left.is_zero() { Step::Wait(left) } else { Step::Ask }
}

/// What the cloud's word means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may come back by itself.
    Wait,
    /// Its machine is shut down.
    Taint,
    /// Its machine is gone.
    Delete,
}

pub(super) fn verdict(node: &CloudNode, instance: Option<&wire::Instance>) -> Verdict {
    match instance {
        None => Verdict::Delete,
        Some(instance) if instance.shutdown && !node.has_taint(SHUTDOWN) => Verdict::Taint,
        Some(_) => Verdict::Wait,
    }
}
