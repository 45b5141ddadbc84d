//! What a pod as a whole requests and may use (upstream `component-helpers/resource`, KEP-753 sidecars, KEP-2837 pod-level resources).

use std::collections::HashMap;

use oarlock_schema::views::core_v1::{Container, ContainerStatus, Pod, ResourceRequirements};

use crate::amounts::Amounts;

/// Which half of the requirements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// What is set aside for the pod.
    Requests,
    /// What it may use at most.
    Limits,
}

/// Whether containers count with what their kubelet says they have now, if that is more (KEP-1287 resize).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// Only the specification.
    Spec,
    /// The larger of specification and status.
    SpecAndStatus,
}

/// The amounts of a whole pod, with what its runtime needs besides.
#[must_use]
pub fn pod(pod: Pod<'_>, side: Side, basis: Basis) -> Amounts {
    let mut sum = without_overhead(pod, side, basis);
    // Overhead is no limit by itself; it raises those that are there.
    let overhead = Amounts::of(pod.spec().overhead());
    sum.add(&overhead.only(|name, _| side == Side::Requests || sum.get(name).is_some()));
    sum
}

/// The amounts of a whole pod; what it says at pod level comes before what its containers add up to.
#[must_use]
pub fn without_overhead(pod: Pod<'_>, side: Side, basis: Basis) -> Amounts {
    let mut sum = containers(pod, side, basis);
    if let Some(own) = pod.spec().resources() {
        for (name, amount) in half(own, side).iter().filter(|(name, _)| at_pod_level(name)) {
            sum.set(name, amount.clone());
        }
    }
    sum
}

/// Whether the pod says something for all its containers together.
#[must_use]
pub fn has_pod_level(pod: Pod<'_>) -> bool {
    let says =
        |r: ResourceRequirements<'_>| r.requests().iter().chain(r.limits().iter()).any(|(name, _)| at_pod_level(name));
    pod.spec().resources().is_some_and(says)
}

/// The amounts of one field of requirements.
#[must_use]
pub fn half(requirements: ResourceRequirements<'_>, side: Side) -> Amounts {
    Amounts::of(match side {
        Side::Requests => requirements.requests(),
        Side::Limits => requirements.limits(),
    })
}

fn at_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Containers run at once and are summed; init containers run one by one beside the sidecars started before them.
fn containers(pod: Pod<'_>, side: Side, basis: Basis) -> Amounts {
    let (mut sum, mut sidecars, mut peak) = (Amounts::default(), Amounts::default(), Amounts::default());
    // Where statuses have the same name the first one counts: the map keeps the last one put in, so the list is reversed.
    let statuses: HashMap<&str, _> = pod.status().container_statuses().iter().rev().map(|s| (s.name(), s)).collect();
    for container in pod.spec().containers().iter() {
        let status = statuses.get(container.name()).copied();
        sum.add(&one(pod, container, status, side, basis));
    }
    let statuses: HashMap<&str, _> =
        pod.status().init_container_statuses().iter().rev().map(|s| (s.name(), s)).collect();
    for container in pod.spec().init_containers().iter() {
        let sidecar = container.restart_policy() == Some("Always");
        // Init containers that are no sidecars cannot be resized, so their statuses add nothing to the spec.
        let status = statuses.get(container.name()).copied().filter(|_| sidecar);
        let own = one(pod, container, status, side, basis);
        // The peak can rise here only in resources that this container itself asks for. What sidecars take in all only grows, and is compared once, after the
        // loop.
        let mut now = own.clone();
        now.add(&sidecars.of_names(&own));
        peak.raise(&now);
        if sidecar {
            sum.add(&own);
            sidecars.add(&own);
        }
    }
    peak.raise(&sidecars);
    sum.raise(&peak);
    sum
}

fn one(
    pod: Pod<'_>,
    container: Container<'_>,
    status: Option<ContainerStatus<'_>>,
    side: Side,
    basis: Basis,
) -> Amounts {
    let mut wanted = half(container.resources(), side);
    let Some((status, actual)) =
        status.filter(|_| basis == Basis::SpecAndStatus).and_then(|s| Some((s, s.resources()?)))
    else {
        return wanted;
    };
    // What cannot be granted is not waited for.
    let pending = pod.status().conditions().iter().find(|c| c.type_() == "PodResizePending");
    if pending.is_some_and(|c| c.reason() == "Infeasible") {
        wanted = Amounts::default();
    }
    wanted.raise(&half(actual, side));
    if side == Side::Requests {
        wanted.raise(&Amounts::of(status.allocated_resources()));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    fn cpu(pod_text: &str, side: Side) -> Option<String> {
        let ty = resource("", "v1", "pods").unwrap().ty;
        let obj = json::decode(pod_text.as_bytes(), ty, Mode::Strict).unwrap().value;
        let amounts = pod(obj.view::<Pod<'_>>().unwrap(), side, Basis::SpecAndStatus);
        amounts.get("cpu").map(|amount| amount.canonical().to_string())
    }

    fn resized(policy: &str, conditions: &str) -> String {
        let status = |name: &str| {
            format!(
                r#"{{"name":"{name}","allocatedResources":{{"cpu":"3"}},"resources":{{"requests":{{"cpu":"2"}},"limits":{{"cpu":"4"}}}}}}"#
            )
        };
        let spec = |name: &str, more: &str| {
            format!(r#"{{"name":"{name}",{more}"resources":{{"requests":{{"cpu":"1"}},"limits":{{"cpu":"1"}}}}}}"#)
        };
        format!(
            r#"{{"spec":{{"containers":[],"initContainers":[{}]}},"status":{{"conditions":[{conditions}],"initContainerStatuses":[{}]}}}}"#,
            spec("i", policy),
            status("i")
        )
    }

    /// Upstream: `AggregateContainerRequests`, `AggregateContainerLimits`.
    #[test]
    fn of_init_containers_only_sidecars_count_with_what_they_have() {
        let plain = resized("", "");
        assert_eq!(
            (cpu(&plain, Side::Requests).as_deref(), cpu(&plain, Side::Limits).as_deref()),
            (Some("1"), Some("1"))
        );
        let sidecar = resized(r#""restartPolicy":"Always","#, "");
        assert_eq!(
            (cpu(&sidecar, Side::Requests).as_deref(), cpu(&sidecar, Side::Limits).as_deref()),
            (Some("3"), Some("4"))
        );
    }

    #[test]
    fn what_is_asked_in_vain_does_not_count() {
        let mut more = resized(r#""restartPolicy":"Always","#, r#"{"type":"PodResizePending","reason":"Infeasible"}"#);
        more = more.replace(
            r#""requests":{"cpu":"1"},"limits":{"cpu":"1"}"#,
            r#""requests":{"cpu":"8"},"limits":{"cpu":"8"}"#,
        );
        assert_eq!(
            (cpu(&more, Side::Requests).as_deref(), cpu(&more, Side::Limits).as_deref()),
            (Some("3"), Some("4"))
        );
        let deferred = more.replace("Infeasible", "Deferred");
        assert_eq!(cpu(&deferred, Side::Requests).as_deref(), Some("8"));
    }
}
