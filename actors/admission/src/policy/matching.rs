//! Matching of requests against the constraints of policies and bindings.

use oarlock_apis::rules::selector;
use oarlock_schema::views::List;
use oarlock_schema::views::admissionregistration_v1::{MatchResources, NamedRuleWithOperations};
use oarlock_schema::views::meta_v1::LabelSelector;
use oarlock_schema::{Obj, RESOURCES, Resource};

use super::question::Request;

/// A request with the data that constraints match on.
pub struct Candidate<'a> {
    /// The request.
    pub request: &'a Request,
    /// The request's resource.
    pub resource: &'static Resource,
    /// The new object.
    pub object: Option<&'a Obj>,
    /// The stored object.
    pub old: Option<&'a Obj>,
    /// Returns the object's namespace; called only when a selector needs it.
    pub namespace: &'a dyn Fn() -> Option<Obj>,
}

/// The namespace that a selector needs does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("namespaces \"{0}\" not found")]
pub struct NamespaceNotFound(pub String);

/// Whether constraints match a request.
///
/// # Errors
/// [`NamespaceNotFound`].
pub fn matches(constraints: MatchResources<'_>, candidate: &Candidate<'_>) -> Result<bool, NamespaceNotFound> {
    if !selects_object(constraints.object_selector(), candidate) {
        return Ok(false);
    }
    let equivalent = constraints.match_policy() != Some("Exact");
    if by_rules(constraints.exclude_resource_rules(), equivalent, candidate) {
        return Ok(false);
    }
    let rules = constraints.resource_rules();
    if !rules.is_empty() && !by_rules(rules, equivalent, candidate) {
        return Ok(false);
    }
    // Last, because only this check can fail, and only matching policies should report the error.
    selects_namespace(constraints.namespace_selector(), candidate)
}

fn by_rules(rules: List<'_, NamedRuleWithOperations<'_>>, equivalent: bool, candidate: &Candidate<'_>) -> bool {
    let fits = |resource: &Resource| rules.iter().any(|rule| by_rule(rule, resource, candidate.request));
    if fits(candidate.resource) {
        return true;
    }
    equivalent && others(candidate.resource).any(fits)
}

/// Returns the other resources that serve the same objects.
fn others(resource: &'static Resource) -> impl Iterator<Item = &'static Resource> {
    let same = move |other: &&'static Resource| {
        let kept = |resource: &Resource| resource.storage.map(|storage| storage.prefix);
        !std::ptr::eq(*other, resource) && kept(resource).is_some() && kept(other) == kept(resource)
    };
    RESOURCES.iter().filter(same)
}

fn by_rule(rule: NamedRuleWithOperations<'_>, resource: &Resource, request: &Request) -> bool {
    let has = |list: List<'_, &str>, wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    let in_namespace = !request.namespace.is_empty() && !request.is_of_namespaces();
    let scope = match rule.scope().unwrap_or("*") {
        "Namespaced" => in_namespace,
        "Cluster" => !in_namespace,
        _ => true,
    };
    let endpoint = |named: &str| {
        let (plural, subresource) = named.split_once('/').unwrap_or((named, ""));
        (plural == "*" || plural == resource.plural) && (subresource == "*" || subresource == request.subresource)
    };
    let names = rule.resource_names();
    scope
        && has(rule.operations(), &request.operation)
        && has(rule.api_groups(), resource.group)
        && has(rule.api_versions(), resource.version)
        && rule.resources().iter().any(endpoint)
        && (names.is_empty() || names.iter().any(|name| name == request.name))
}

/// Whether the object selector matches; for an update the old or the new object suffices.
fn selects_object(chosen: Option<LabelSelector<'_>>, candidate: &Candidate<'_>) -> bool {
    let Some(chosen) = chosen.filter(|chosen| !selector::is_empty(*chosen)) else { return true };
    let states = [candidate.object, candidate.old];
    states.into_iter().flatten().any(|obj| selector::matches(chosen, obj.meta().labels()))
}

fn selects_namespace(chosen: Option<LabelSelector<'_>>, candidate: &Candidate<'_>) -> Result<bool, NamespaceNotFound> {
    let request = candidate.request;
    let Some(chosen) = chosen.filter(|chosen| !selector::is_empty(*chosen)) else { return Ok(true) };
    if request.namespace.is_empty() {
        return Ok(true);
    }
    // For a namespace that is created or changed, its new labels count.
    let own = candidate.object.filter(|_| request.is_of_namespaces() && request.subresource.is_empty());
    if let Some(own) = own {
        return Ok(selector::matches(chosen, own.meta().labels()));
    }
    match (candidate.namespace)() {
        Some(namespace) => Ok(selector::matches(chosen, namespace.meta().labels())),
        None => Err(NamespaceNotFound(request.namespace.clone())),
    }
}
