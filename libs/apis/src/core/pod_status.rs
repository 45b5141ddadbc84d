//! Validates updates of a pod's status (upstream `ValidatePodStatusUpdate`).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use oarlock_meta::field::Raw;
use oarlock_meta::names::subdomain_errors;
use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::core_v1::{Container, ContainerStatus, HostIP, Pod, PodIP, PodMut, PodSpec, PodStatus};
use oarlock_schema::views::{List, View};
use oarlock_schema::{Struct, Value};
use oarlock_seeded_bug::seeded_bug;

use crate::rules::{self, each, formats, qualified, subdomain};

/// Upstream's own condition types, which need no validation.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const NO_GENERATION: &str = "must be a non-negative integer";

/// Validates an update of a pod's status. Both arguments are whole pods.
pub fn validate_change(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let (pod, before) = (Pod::new(new), Pod::new(old));
    let (now, was, path) = (pod.status(), before.status(), Path::new("status"));
    annotations(pod, before, errors);
    conditions(now, &path.child("conditions"), errors);
    nominated(now, before, &path.child("nominatedNodeName"), errors);
    if now.observed_generation() < 0 {
        let at = path.child("observedGeneration");
        errors.push(FieldError::invalid(&at, now.observed_generation(), NO_GENERATION));
    }
    let class = |status: PodStatus<'_>| status.node().and_then(|node| node.get("qosClass")).cloned();
    rules::immutable(class(now).as_ref(), class(was).as_ref(), &path.child("qosClass"), errors);
    states(now, was, before.spec(), &path, errors);
    claims(now, pod.spec(), &path.child("resourceClaimStatuses"), errors);
    let known = was.pod_ips().iter().map(PodIP::ip).collect();
    addresses(now.pod_ips().iter().map(PodIP::ip).collect(), &known, &path.child("podIPs"), errors);
    hosts(now, was, &path.child("hostIPs"), errors);
    users(now, pod.spec(), &path, errors);
}

/// Completes `podIP` and `podIPs` from one another. If they disagree, `podIP` takes precedence, because old kubelets do not know the list (upstream
/// `Convert_v1_PodStatus_To_core_PodStatus` and back).
pub fn pair_addresses(pod: &mut Struct) {
    let status = Pod::new(pod).status();
    let (one, first) = (status.pod_ip().to_owned(), status.pod_ips().get(0).map(|ip| ip.ip().to_owned()));
    match first {
        Some(first) if one.is_empty() => drop(PodMut::new(pod).status_mut().set_pod_ip(first)),
        first if one.is_empty() || first.as_ref() == Some(&one) => {}
        _ => {
            let mut item = Struct::zero(PodIP::TYPE);
            item.set_name("ip", one);
            PodMut::new(pod).status_mut().set_pod_ips(Value::List(vec![Value::Struct(item)].into()));
        }
    }
}

/// Validates that annotations for AppArmor profiles and static pods do not change after creation (upstream `ValidatePodSpecificAnnotationUpdates`).
fn annotations(pod: Pod<'_>, before: Pod<'_>, errors: &mut ErrorList) {
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let (now, was) = (pod.metadata().annotations(), before.metadata().annotations());
    let mut tell = |key: &str, did: &str| {
        let what = match key {
            "kubernetes.io/config.mirror" => "mirror pod annotation",
            key if key.starts_with("container.apparmor.security.beta.kubernetes.io/") => "AppArmor annotations",
            _ => return,
        };
        errors.push(FieldError::forbidden(&path.key(key), format!("may not {did} {what}")));
    };
    was.iter().filter(|(key, value)| now.get(key) != Some(*value)).for_each(|(key, _)| tell(key, "remove or update"));
    now.iter().filter(|(key, _)| was.get(key).is_none()).for_each(|(key, _)| tell(key, "add"));
}

fn conditions(status: PodStatus<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (i, condition) in status.conditions().iter().enumerate() {
        let at = path.index(i);
        if condition.observed_generation() < 0 {
            let here = at.child("observedGeneration");
            errors.push(FieldError::invalid(&here, condition.observed_generation(), NO_GENERATION));
        }
        if !SYSTEM_CONDITIONS.contains(&condition.type_()) {
            // Upstream's path has this spelling.
            qualified(condition.type_(), &at.child("Type"), errors);
        }
    }
}

/// Validates `nominatedNodeName`, which must not be set once the pod is bound.
fn nominated(now: PodStatus<'_>, before: Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (name, was) = (now.nominated_node_name(), before.status().nominated_node_name());
    if name.is_empty() || name == was {
        return;
    }
    subdomain(name, path, errors);
    if !before.spec().node_name().is_empty() {
        errors.push(FieldError::forbidden(path, "may not be set on pods that are already bound to a node"));
    }
}

/// Validates that a terminated container without restart stays terminated.
fn states(now: PodStatus<'_>, was: PodStatus<'_>, spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = by_name(spec.containers());
    let init = by_name(spec.init_containers());
    let lists = [
        ("containerStatuses", now.container_statuses(), was.container_statuses(), containers),
        ("initContainerStatuses", now.init_container_statuses(), was.init_container_statuses(), init),
        (
            "ephemeralContainerStatuses",
            now.ephemeral_container_statuses(),
            was.ephemeral_container_statuses(),
            HashMap::new(),
        ),
    ];
    for (field, now, was, containers) in lists {
        let at = path.child(field);
        let alive: HashSet<&str> =
            now.iter().filter(|one| one.state().terminated().is_none()).map(ContainerStatus::name).collect();
        for (i, one) in was.iter().enumerate().filter(|(_, one)| alive.contains(one.name())) {
            let Some(end) = one.state().terminated() else { continue };
            let again = containers.get(one.name()).is_some_and(|c| starts_again(*c, spec, end.exit_code()));
            if !again && !seeded_bug!("ended_container_lives") {
                let text = "may not be transitioned to non-terminated state";
                errors.push(FieldError::forbidden(&at.index(i).child("state"), text));
            }
        }
    }
}

fn by_name<'a>(list: List<'a, Container<'a>>) -> HashMap<&'a str, Container<'a>> {
    list.iter().map(|container| (container.name(), container)).collect()
}

/// Whether a terminated container is restarted: its restart rules decide first, then its own restart policy, then the pod's (upstream
/// `ContainerShouldRestart`).
fn starts_again(container: Container<'_>, spec: PodSpec<'_>, exit: i64) -> bool {
    let own = container.restart_policy();
    let by_rule = || {
        let matching = container.restart_policy_rules().iter().find(|rule| {
            let Some(codes) = rule.exit_codes() else { return false };
            let named = codes.values().iter().any(|code| code == exit);
            matches!((codes.operator(), named), ("In", true) | ("NotIn", false))
        });
        matching.is_some_and(|rule| rule.action() == "Restart")
    };
    if own.is_some() && by_rule() {
        return true;
    }
    match own.filter(|policy| matches!(*policy, "Always" | "OnFailure" | "Never")).unwrap_or(spec.restart_policy()) {
        "OnFailure" => exit != 0,
        "Never" => false,
        _ => true,
    }
}

/// Validates that `resourceClaimStatuses` names only claims of the spec.
fn claims(now: PodStatus<'_>, spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let asked: HashSet<&str> = spec.resource_claims().iter().map(|claim| claim.name()).collect();
    let mut seen = HashSet::new();
    for (i, status) in now.resource_claim_statuses().iter().enumerate() {
        let at = path.index(i);
        let (name, at) = (status.name(), at.child("name"));
        if !asked.contains(name) {
            errors.push(FieldError::invalid(&at, name, "must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
        if let Some(claim) = status.resource_claim_name() {
            each(subdomain_errors(claim), claim, &at, errors);
        }
    }
}

/// Validates addresses of a pod or its host: new ones must be well formed, with at most one of each family.
fn addresses(list: Vec<&str>, known: &HashSet<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    for (i, address) in list.iter().enumerate().filter(|(_, address)| !known.contains(**address)) {
        rules::ip(address, &path.index(i), errors);
    }
    if list.len() < 2 {
        return;
    }
    let wrong = list.iter().enumerate().find(|(_, address)| !formats::is_ip(address));
    if let Some((i, address)) = wrong {
        let text = format!("failed to check for dual stack with error:invalid IP[{i}]: {address}");
        errors.push(FieldError::internal(path, text));
    }
    let sixes = list.iter().filter(|address| is_v6(address)).count();
    let both = wrong.is_none() && sixes > 0 && sixes < list.len();
    if !both || list.len() > 2 {
        let shown = list.iter().map(|address| format!("{{\"IP\":{}}}", quote(address))).collect::<Vec<_>>().join(",");
        let text = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(path, Raw(format!("[{shown}]")), text));
    }
}

/// Whether an address is IPv6. As in Go, an IPv4-mapped IPv6 address counts as IPv4.
fn is_v6(address: &str) -> bool {
    matches!(address.parse::<IpAddr>(), Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none())
}

fn hosts(now: PodStatus<'_>, was: PodStatus<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(first) = now.host_ips().get(0) else { return };
    if now.host_ip() != first.ip() {
        errors.push(FieldError::invalid(&path.index(0).child("ip"), first.ip(), "must be equal to `hostIP`"));
    }
    let known = was.host_ips().iter().map(HostIP::ip).collect();
    addresses(now.host_ips().iter().map(HostIP::ip).collect(), &known, path, errors);
}

/// Validates the user ids that a status reports.
fn users(now: PodStatus<'_>, spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let windows = spec.os().is_some_and(|os| os.name() == "windows");
    for (field, list) in [
        ("containerStatuses", now.container_statuses()),
        ("initContainerStatuses", now.init_container_statuses()),
        ("ephemeralContainerStatuses", now.ephemeral_container_statuses()),
    ] {
        let at = path.child(field);
        for (i, status) in list.iter().enumerate() {
            let Some(user) = status.user().and_then(|user| user.linux()) else { continue };
            let at = at.index(i);
            let at = at.child("user");
            let at = at.child("linux");
            if windows {
                errors.push(FieldError::forbidden(&at, "cannot be set for a windows pod"));
                continue;
            }
            id(user.uid(), &at.child("uid"), errors);
            id(user.gid(), &at.child("gid"), errors);
            for (g, group) in user.supplemental_groups().iter().enumerate() {
                id(group, &at.child("supplementalGroups").index(g), errors);
            }
        }
    }
}

fn id(n: i64, path: &Path<'_>, errors: &mut ErrorList) {
    rules::range(n, 0, i64::from(i32::MAX), path, errors);
}
