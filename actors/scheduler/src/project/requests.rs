//! What a pod requests: the sum over containers, the maximum with init containers, sidecars counted beside both,
//! pod-level requests and overhead (upstream: `resource.PodRequests`; KEP-753, KEP-2837, KEP-1287).

use std::collections::BTreeMap;

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{Container, ContainerStatus, Pod, PodStatus};
use oarlock_schema::views::{List, Map};

use crate::intern::{Interner, Res};
use crate::model::{Requests, UNSET_CPU, UNSET_MEMORY};

type Amounts = BTreeMap<Res, i64>;

/// A quantity in the unit of its resource's column: milli-cores, else whole units rounded up.
pub(super) fn amount(resource: Res, text: &str) -> i64 {
    // The API has validated quantities; one it would not let pass counts as nothing.
    let Ok(quantity) = Quantity::parse(text) else { return 0 };
    if resource == Res::CPU { quantity.milli_value() } else { quantity.value() }
}

/// Quantities by resource, columns of `pods` excluded.
pub(super) fn amounts<'a>(map: Map<'a, &'a str>, names: &Interner) -> Amounts {
    map.iter()
        .map(|(name, text)| {
            let resource = names.resource(name);
            (resource, amount(resource, text))
        })
        .collect()
}

/// Amounts as a sorted list without zeros.
pub(super) fn listed(amounts: &Amounts) -> Requests {
    amounts.iter().filter(|(_, amount)| **amount != 0).map(|(resource, amount)| (*resource, *amount)).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(*resource).or_default() += amount;
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (resource, amount) in at_least {
        let value = to.entry(*resource).or_default();
        *value = (*value).max(*amount);
    }
}

/// Whether the kubelet reported that the node can never grant the requested resize: no resources are reserved for it (upstream `IsPodResizeInfeasible`).
fn is_infeasible(status: PodStatus<'_>) -> bool {
    let pending = status.conditions().iter().find(|condition| condition.type_() == "PodResizePending");
    pending.is_some_and(|condition| condition.reason() == "Infeasible")
}

/// A container's requests, of a running one at least what it was given (a resize in progress).
fn container(
    container: Container<'_>,
    statuses: List<'_, ContainerStatus<'_>>,
    infeasible: bool,
    names: &Interner,
) -> Amounts {
    let mut requests = amounts(container.resources().requests(), names);
    if let Some(status) = statuses.iter().find(|status| status.name() == container.name())
        && let Some(actual) = status.resources()
    {
        if infeasible {
            requests.clear();
        }
        raise(&mut requests, &amounts(actual.requests(), names));
        raise(&mut requests, &amounts(status.allocated_resources(), names));
    }
    requests
}

fn fill_in(mut requests: Amounts, unset: &[(Res, i64)]) -> Amounts {
    for (resource, amount) in unset {
        requests.entry(*resource).or_insert(*amount);
    }
    requests
}

/// Whether a container of `initContainers` runs as long as the pod does.
pub(super) fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

fn total(pod: Pod<'_>, names: &Interner, unset: &[(Res, i64)]) -> Amounts {
    let (spec, status) = (pod.spec(), pod.status());
    let infeasible = is_infeasible(status);
    let mut sum = Amounts::new();
    for main in spec.containers().iter() {
        add(&mut sum, &fill_in(container(main, status.container_statuses(), infeasible, names), unset));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers().iter() {
        let requests = if is_sidecar(init) {
            container(init, status.init_container_statuses(), infeasible, names)
        } else {
            amounts(init.resources().requests(), names)
        };
        let requests = fill_in(requests, unset);
        if is_sidecar(init) {
            add(&mut sum, &requests);
            add(&mut sidecars, &requests);
            raise(&mut peak, &sidecars);
        } else {
            let mut running = requests;
            add(&mut running, &sidecars);
            raise(&mut peak, &running);
        }
    }
    raise(&mut sum, &peak);
    if let Some(resources) = spec.resources() {
        for (name, text) in resources.requests().iter() {
            if matches!(name, "cpu" | "memory") || name.starts_with("hugepages-") {
                let resource = names.resource(name);
                sum.insert(resource, amount(resource, text));
            }
        }
    }
    add(&mut sum, &amounts(spec.overhead(), names));
    sum
}

/// What the pod requests, and cpu and memory with the defaults for containers that request none.
pub(super) fn of(pod: Pod<'_>, names: &Interner) -> (Requests, [i64; 2]) {
    let requests = total(pod, names, &[]);
    let filled = total(pod, names, &[(Res::CPU, UNSET_CPU), (Res::MEMORY, UNSET_MEMORY)]);
    let nonzero = [Res::CPU, Res::MEMORY].map(|resource| filled.get(&resource).copied().unwrap_or(0));
    (listed(&requests), nonzero)
}
