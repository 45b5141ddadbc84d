//! The downward API: fields of a pod and resources of its containers, for environments and volumes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use oarlock_meta::names::label_key_errors;
use oarlock_meta::quote::quote;
use oarlock_meta::{Quantity, quantity};
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{Container, Pod, ResourceFieldSelector};
use oarlock_schema::views::{Map, View};

use crate::pod_error::PodError;

/// Facts about a pod's node and addresses for the downward API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// Addresses of the node, the primary one first.
    pub(crate) host_ips: Vec<IpAddr>,
    /// Addresses of the pod, the primary one first; those of the node where it uses the node's network.
    pub(crate) pod_ips: Vec<IpAddr>,
    /// Resources that the node's pods may use, as quantities.
    pub(crate) allocatable: BTreeMap<Str, Str>,
}

/// Returns the value of a `fieldRef` for an environment variable (upstream `podFieldSelectorRuntimeValue`).
///
/// # Errors
/// When the field does not exist; upstream's text.
pub(crate) fn field(pod: Pod<'_>, path: &str, around: &Surroundings) -> Result<String, PodError> {
    Ok(match path {
        "spec.nodeName" | "spec.host" => pod.spec().node_name().to_owned(),
        "spec.serviceAccountName" => pod.spec().service_account_name().to_owned(),
        "status.hostIP" => around.host_ips.first().map(IpAddr::to_string).unwrap_or_default(),
        "status.hostIPs" => joined(&around.host_ips),
        "status.podIP" => around.pod_ips.first().map(IpAddr::to_string).unwrap_or_default(),
        "status.podIPs" => joined(&around.pod_ips),
        _ => return metadata(pod, path),
    })
}

/// Returns the value of a `fieldRef` of a volume, which supports metadata only (upstream `fieldpath.ExtractFieldPathAsString`).
///
/// # Errors
/// When the field does not exist; upstream's text.
pub(crate) fn metadata(pod: Pod<'_>, path: &str) -> Result<String, PodError> {
    let meta = pod.metadata();
    if let Some((map, key)) = subscript(path) {
        let (values, checked) = match map {
            "metadata.annotations" => (meta.annotations(), key.to_lowercase()),
            "metadata.labels" => (meta.labels(), key.to_owned()),
            _ => return Err(PodError::Invalid(format!("fieldPath {} does not support subscript", quote(path)))),
        };
        let errors = label_key_errors(&checked);
        if !errors.is_empty() {
            return Err(PodError::Invalid(format!("invalid key subscript in {path}: {}", errors.join(";"))));
        }
        return Ok(values.get(key).unwrap_or("").to_owned());
    }
    match path {
        "metadata.annotations" => Ok(listed(meta.annotations())),
        "metadata.labels" => Ok(listed(meta.labels())),
        "metadata.name" => Ok(meta.name().to_owned()),
        "metadata.namespace" => Ok(meta.namespace().to_owned()),
        "metadata.uid" => Ok(meta.uid().to_owned()),
        _ => Err(PodError::Invalid(format!("unsupported fieldPath: {path}"))),
    }
}

/// Returns the value of a `resourceFieldRef`. Where the container has no limit, the pod's own limit applies, and else the node's allocatable amount. `own` is
/// the container used for a reference without a container name.
///
/// # Errors
/// When the container or resource does not exist; upstream's text.
pub(crate) fn resource(
    reference: ResourceFieldSelector<'_>,
    pod: Pod<'_>,
    own: Option<Container<'_>>,
    around: &Surroundings,
) -> Result<String, PodError> {
    let name = reference.container_name();
    let container = match own {
        Some(own) if name.is_empty() => own,
        _ => find(pod, name).ok_or_else(|| PodError::Invalid(format!("container {name} not found")))?,
    };
    let unsupported = || PodError::Invalid(format!("unsupported container resource : {}", reference.resource()));
    let (list, resource) = reference.resource().split_once('.').ok_or_else(unsupported)?;
    let defaulted = matches!(resource, "cpu" | "memory" | "ephemeral-storage");
    if !defaulted && !resource.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let amount = match list {
        "requests" => amount(container.resources().requests(), resource),
        "limits" => match amount(container.resources().limits(), resource) {
            own if !own.is_zero() || !defaulted => own,
            _ => default_limit(pod, resource, around),
        },
        _ => return Err(unsupported()),
    };
    let divisor = match Quantity::parse(reference.divisor()) {
        Ok(divisor) if !divisor.is_zero() => divisor,
        _ => Quantity::new(1, quantity::Format::DecimalSi),
    };
    let of = |amount: &Quantity| if resource == "cpu" { amount.milli_value() } else { amount.value() };
    let (amount, divisor) = (i128::from(of(&amount)), i128::from(of(&divisor)).max(1));
    Ok((amount.saturating_add(divisor - 1) / divisor).to_string())
}

fn default_limit(pod: Pod<'_>, resource: &str, around: &Surroundings) -> Quantity {
    let Some(node) = around.allocatable.get(resource) else { return Quantity::ZERO };
    // Pod-level resources limit cpu and memory only.
    let whole = pod.spec().resources().filter(|_| resource != "ephemeral-storage");
    match whole.map(|whole| amount(whole.limits(), resource)) {
        Some(limit) if !limit.is_zero() => limit,
        _ => Quantity::parse(node).unwrap_or_default(),
    }
}

/// Returns the container of this name; init containers come last in the search.
pub(crate) fn find<'a>(pod: Pod<'a>, name: &str) -> Option<Container<'a>> {
    let spec = pod.spec();
    spec.containers().iter().chain(spec.init_containers().iter()).find(|container| container.name() == name)
}

/// Returns an amount of a resource list; zero for a missing resource.
pub(crate) fn amount<'a>(list: Map<'a, &'a str>, resource: &str) -> Quantity {
    list.get(resource).and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Reads an object as a pod; an object of another kind reads as an empty pod.
pub(crate) fn pod(object: &oarlock_schema::Obj) -> Pod<'_> {
    Pod::of(object).unwrap_or_else(|| Pod::from_option(None))
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// Returns lines of `key="value"`, sorted by key.
fn listed<'a>(map: Map<'a, &'a str>) -> String {
    map.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect::<Vec<_>>().join("\n")
}

/// Splits `metadata.labels['a']` into `metadata.labels` and `a`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

#[cfg(test)]
mod tests;
