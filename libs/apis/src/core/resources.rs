//! Defaults and validation of requests and limits.

use std::collections::BTreeSet;

use oarlock_meta::quantity::Format;
use oarlock_meta::{ErrorList, FieldError, Path, Quantity};
use oarlock_schema::views::core_v1::ResourceRequirements;
use oarlock_schema::{Struct, Value};

use crate::rules::{Seen, label, qualified, quantity};

/// Rounds up amounts finer than a thousandth (upstream `SetDefaults_ResourceList`).
pub fn default(node: &mut Struct) {
    for field in ["limits", "requests"] {
        if let Some(Value::Map(map)) = node.get_mut(field) {
            for (_, value) in map.iter_mut() {
                if let Some(rounded) = value.as_str().and_then(rounded) {
                    *value = rounded;
                }
            }
        }
    }
}

/// Returns the rounded amount. Only canonical texts with these suffixes are finer than a thousandth.
fn rounded(text: &str) -> Option<Value> {
    if !text.ends_with(['n', 'u']) {
        return None;
    }
    let milli = Quantity::parse(text).ok()?.milli_value();
    Some(Quantity::from_milli(milli, Format::DecimalSi).canonical().into())
}

/// Resources without a domain that containers can request.
const CONTAINER_RESOURCES: &[&str] = &["cpu", "ephemeral-storage", "memory"];
/// All resources without a domain: of containers, quotas, claims and limits.
const STANDARD_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
    "requests.storage",
    "storage",
];
/// Resources counted in whole numbers.
const WHOLE_NUMBER_RESOURCES: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether a resource without a domain can be counted by quotas: all but those of claims.
pub fn counted(name: &str) -> bool {
    name != "storage" && STANDARD_RESOURCES.contains(&name)
}

fn huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a resource is Kubernetes' own: without a domain, or in Kubernetes' domain (upstream `IsNativeResource`).
pub(super) fn native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is an extended one, such as that of a device plugin (upstream `IsExtendedResourceName`).
fn extended(name: &str) -> bool {
    !native(name)
        && !name.starts_with("requests.")
        && oarlock_meta::names::label_key_errors(&format!("requests.{name}")).is_empty()
}

/// Whether a resource can be overcommitted, so that limits may exceed requests.
pub(crate) fn overcommits(name: &str) -> bool {
    native(name) && !huge(name)
}

/// Validates a resource name (upstream `validateResourceName`); returns `false` for a malformed name.
pub(crate) fn name(name: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    qualified(name, path, errors);
    if errors.len() == before
        && !name.contains('/')
        && !STANDARD_RESOURCES.contains(&name)
        && !huge(name)
        && !name.starts_with("requests.hugepages-")
    {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    errors.len() == before
}

pub(crate) fn container_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    name(resource, path, errors);
    if !resource.contains('/') {
        if !CONTAINER_RESOURCES.contains(&resource) && !huge(resource) {
            errors.push(FieldError::invalid(path, resource, "must be a standard resource for containers"));
        }
    } else if !native(resource) && !extended(resource) {
        errors.push(FieldError::invalid(path, resource, "doesn't follow extended resource name standard"));
    }
}

fn pod_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name(resource, path, errors) && !matches!(resource, "cpu" | "memory") && !huge(resource) {
        errors.push(FieldError::not_supported(path, resource, &["cpu", "hugepages-", "memory"]));
    }
}

/// Validates an amount of a resource (upstream `ValidateResourceQuantityValue`).
pub(crate) fn amount(resource: &str, text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    quantity(text, path, errors);
    let whole = WHOLE_NUMBER_RESOURCES.contains(&resource) || extended(resource);
    if whole && Quantity::parse(text).is_ok_and(|q| q.milli_value() % 1000 != 0) {
        errors.push(FieldError::invalid(path, text, "must be an integer"));
    }
}

/// Validates requests and limits of a container, or of a whole pod (upstream `validateResourceRequirements`).
pub(super) fn requirements(
    resources: ResourceRequirements<'_>,
    whole_pod: bool,
    claims: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if resources.limits().is_empty() && resources.requests().is_empty() && resources.claims().is_empty() {
        return;
    }
    let check = if whole_pod { pod_name } else { container_name };
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let (mut compute, mut pages) = (false, false);
    for (list, amounts) in [(&limits, resources.limits()), (&requests, resources.requests())] {
        for (resource, text) in amounts.iter() {
            let at = list.key(resource);
            check(resource, &at, errors);
            amount(resource, text, &at, errors);
            compute |= matches!(resource, "cpu" | "memory");
            if huge(resource) {
                pages = true;
                if !divisible(resource, text) {
                    errors.push(FieldError::invalid(
                        &at,
                        text,
                        format!("{text} is not positive integer multiple of {resource}"),
                    ));
                }
            }
        }
    }
    for (resource, text) in resources.requests().iter() {
        match resources.limits().get(resource) {
            Some(limit) => {
                let order = Quantity::parse(text).ok().zip(Quantity::parse(limit).ok()).map(|(a, b)| a.cmp(&b));
                if !overcommits(resource) && order.is_some_and(std::cmp::Ordering::is_ne) {
                    errors.push(FieldError::invalid(
                        &requests,
                        text,
                        format!("must be equal to {resource} limit of {limit}"),
                    ));
                } else if order.is_some_and(std::cmp::Ordering::is_gt) {
                    let rule = format!("must be less than or equal to {resource} limit of {limit}");
                    errors.push(FieldError::invalid(&requests, text, rule));
                }
            }
            None if !overcommits(resource) => {
                errors.push(FieldError::required(&limits, "Limit must be set for non overcommitable resources"));
            }
            None => {}
        }
    }
    if pages && !compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claim_names(resources, claims, &path.child("claims"), errors);
}

fn divisible(resource: &str, text: &str) -> bool {
    let size = resource.strip_prefix("hugepages-").and_then(|s| Quantity::parse(s).ok()).map_or(0, |q| q.value());
    let amount = Quantity::parse(text).map_or(0, |q| q.value());
    size > 0 && amount > 0 && amount % size == 0
}

fn claim_names(resources: ResourceRequirements<'_>, known: &BTreeSet<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: Seen<(&str, &str)> = Seen::new();
    let mut claimed: Seen<&str> = Seen::new();
    let mut listed: Option<String> = None;
    for (i, claim) in resources.claims().iter().enumerate() {
        let (at, this) = (path.index(i), (claim.name(), claim.request()));
        if this.0.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        if !this.1.is_empty() {
            label(this.1, &at.child("request"), errors);
        }
        // A claim as a whole overlaps with each of its requests.
        let overlap = if this.1.is_empty() {
            claimed.contains(&this.0)
        } else {
            seen.contains(&this) || seen.contains(&(this.0, ""))
        };
        if overlap {
            errors.push(FieldError::duplicate(&at, this.0));
        }
        seen.push(this);
        claimed.push(this.0);
        if !known.contains(&this.0) && !errors.is_full() {
            let mut error = FieldError::not_found(&at, this.0);
            error.detail = if known.is_empty() {
                "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
            } else {
                let all = || known.iter().copied().collect::<Vec<_>>().join(", ");
                format!("must be one of the names in pod.spec.resourceClaims: {}", listed.get_or_insert_with(all))
            };
            errors.push(error);
        }
    }
}
