//! The quality of service class of pods (upstream `ComputePodQOS`, `GetPodQOS`).

use std::collections::BTreeMap;

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{Pod, PodSpec, ResourceRequirements};

/// The class that decides which pods lose resources and are evicted first on a node under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Every container has cpu and memory limits, with equal requests.
    Guaranteed,
    /// Neither guaranteed nor best effort.
    Burstable,
    /// No container has a cpu or memory request or limit.
    BestEffort,
}

impl QosClass {
    /// Returns the class as `status.qosClass` names the class.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Returns the class that the API server gave the pod at creation; for a pod without one, such as a static pod, the class computed from its resources.
#[must_use]
pub fn of(pod: Pod<'_>) -> QosClass {
    let given = pod.status().qos_class();
    let known = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
    known.into_iter().find(|class| class.as_str() == given).unwrap_or_else(|| computed(pod.spec()))
}

/// Computes the class from a pod's resources. Pod-level resources, where present, replace those of the containers (KEP-2837). Defaulting must have set requests
/// from limits before.
#[must_use]
pub fn computed(spec: PodSpec<'_>) -> QosClass {
    let (mut requests, mut limits, mut all_limited) = (Compute::default(), Compute::default(), true);
    let mut count = |resources: ResourceRequirements<'_>| {
        add(&mut requests, resources.requests().iter());
        all_limited &= add(&mut limits, resources.limits().iter()) == 2;
    };
    match spec.resources() {
        Some(own) => count(own),
        None => spec.containers().iter().chain(spec.init_containers().iter()).for_each(|c| count(c.resources())),
    }
    match (requests.is_empty() && limits.is_empty(), all_limited && requests == limits) {
        (true, _) => QosClass::BestEffort,
        (false, true) => QosClass::Guaranteed,
        (false, false) => QosClass::Burstable,
    }
}

/// Amounts of cpu and memory.
type Compute = BTreeMap<&'static str, Quantity>;

/// Adds the amounts above zero to `sum`; returns how many there are.
fn add<'a>(sum: &mut Compute, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let mut count = 0;
    for (name, text) in amounts {
        let Some(known) = ["cpu", "memory"].into_iter().find(|known| *known == name) else { continue };
        let Some(amount) = Quantity::parse(text).ok().filter(|amount| amount.signum() > 0) else { continue };
        count += 1;
        *sum.entry(known).or_default() += &amount;
    }
    count
}
