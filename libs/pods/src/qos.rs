//! Quality of service of pods (upstream `ComputePodQOS`, `GetPodQOS`).

use std::collections::BTreeMap;

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{Pod, PodSpec, ResourceRequirements};

/// The class that decides who is starved and killed first where a node runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// CPU and memory are limited in every container, and requested in full.
    Guaranteed,
    /// Anything between the two others.
    Burstable,
    /// Nothing is requested or limited.
    BestEffort,
}

impl QosClass {
    /// The class as `status.qosClass` has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// The class that the API server gave the pod when it was created; of a pod without one, as static pods are, that of its resources.
#[must_use]
pub fn of(pod: Pod<'_>) -> QosClass {
    let given = pod.status().qos_class();
    let known = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
    known.into_iter().find(|class| class.as_str() == given).unwrap_or_else(|| computed(pod.spec()))
}

/// The class of a pod's resources. Those at pod level, where the field is there, count instead of the containers' (KEP-2837). Requests must have been
/// defaulted from limits.
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

/// Adds the amounts that are more than nothing; returns how many there are.
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
