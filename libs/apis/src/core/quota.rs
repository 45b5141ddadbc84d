//! Defaults and validation of ResourceQuota.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::core_v1::{ResourceQuota, ResourceQuotaSpec};
use oarlock_schema::views::{Map, View};

use super::resources;
use crate::rules::show;

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Resources that all pods use, by which scopes can select pods.
const POD_RESOURCES: &[&str] =
    &["pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Validates like upstream's `ValidateResourceQuotaSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = ResourceQuotaSpec::new(node);
    amounts(spec.hard(), &path.child("hard"), errors);
    let scopes: Vec<&str> = spec.scopes().iter().collect();
    let at = path.child("scopes");
    let shown = || Raw(show::items(spec.scopes().values()));
    // Each error shows all scopes, and there is one error for each incompatible pair of scope and amount.
    for scope in &scopes {
        if errors.is_full() {
            break;
        }
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid(&at, shown(), "unsupported scope"));
        }
        for _ in spec.hard().iter().filter(|(name, _)| !fits(scope, name)) {
            if errors.is_full() {
                break;
            }
            errors.push(FieldError::invalid(&at, shown(), "unsupported scope applied to resource"));
        }
    }
    if conflict(&scopes) {
        errors.push(FieldError::invalid(&at, shown(), "conflicting scopes"));
    }
    selector(spec, path, errors);
}

/// Validates amounts of countable resources.
fn amounts(list: Map<'_, &str>, path: &Path<'_>, errors: &mut ErrorList) {
    for (name, text) in list.iter() {
        let at = path.key(name);
        resources::name(name, &at, errors);
        let pages = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
        if !name.contains('/') && !resources::counted(name) && !pages {
            errors.push(FieldError::invalid(&at, name, "must be a standard resource for quota"));
        }
        resources::amount(name, text, &at, errors);
    }
}

/// Validates like upstream's `ValidateResourceQuotaStatusUpdate`.
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let (status, path) = (ResourceQuota::new(new).status(), Path::new("status"));
    amounts(status.hard(), &path.child("hard"), errors);
    amounts(status.used(), &path.child("used"), errors);
}

fn fits(scope: &str, resource: &str) -> bool {
    let standard = resources::counted(resource);
    match scope {
        "BestEffort" => !standard || resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            !standard || POD_RESOURCES.contains(&resource)
        }
        "VolumeAttributesClass" => !standard || matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn conflict(scopes: &[&str]) -> bool {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .any(|pair| pair.iter().all(|s| scopes.contains(s)))
}

/// Validates like upstream's `validateScopedResourceSelectorRequirement`, whose paths leave the index out.
fn selector(spec: ResourceQuotaSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(selector) = spec.scope_selector() else { return };
    let at = path.child("scopeSelector");
    let at = at.child("matchExpressions");
    let mut scopes: Vec<&str> = Vec::new();
    for requirement in selector.match_expressions().iter() {
        let scope = requirement.scope_name();
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(&at.child("scopeName"), scope, "unsupported scope"));
        }
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && requirement.operator() != "Exists"
        {
            let text = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                        ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(&at.child("operator"), requirement.operator(), text));
        }
        match requirement.operator() {
            "In" | "NotIn" if requirement.values().is_empty() => {
                let text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(&at.child("values"), text));
            }
            "Exists" | "DoesNotExist" if !requirement.values().is_empty() => {
                let shown = Raw(show::items(requirement.values().values()));
                let text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(&at.child("values"), shown, text));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(&at.child("operator"), other, "not a valid selector operator")),
        }
        scopes.push(scope);
    }
    if conflict(&scopes) {
        let shown = Raw(show::items(spec.scopes().values()));
        errors.push(FieldError::invalid(&at, shown, "conflicting scopes"));
    }
}
