//! Nobody grants what they do not hold (upstream: `pkg/registry/rbac/*/policybased`): who writes a role must hold all its rules or
//! the verb `escalate` on it; who writes a binding must hold all rules of the role or the verb `bind` on it.
//!
//! The caller leaves these checks out for `system:masters`' updates only by what these functions answer, and for updates that change
//! nothing but finalizers and owner references.

use oarlock_meta::{GroupResource, Status, quote::quote};

use crate::attributes::Attributes;
use crate::authorizers::Authorizers;
use crate::authorizers::rbac::{GROUP, PolicyRule, RoleRef, covers, describe_missing, unresolved_text};
use crate::user::{MASTERS, UserInfo};

/// A role about to be written.
#[derive(Debug, Clone, Copy)]
pub struct RoleWrite<'a> {
    /// Empty for a ClusterRole.
    pub namespace: &'a str,
    /// The name in the URL; empty for creation.
    pub request_name: &'a str,
    /// The role's name.
    pub name: &'a str,
    /// The rules it is to have.
    pub rules: &'a [PolicyRule],
    /// Whether it has, or had, an aggregation rule.
    pub aggregated: bool,
}

/// A binding about to be written.
#[derive(Debug, Clone, Copy)]
pub struct BindingWrite<'a> {
    /// Empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    /// The binding's name.
    pub name: &'a str,
    /// What it is to hand out.
    pub role: &'a RoleRef,
}

/// Whether `user` may write the role.
///
/// # Errors
/// The 403 that says what is missing.
pub fn check_role(authorizers: &Authorizers, user: &UserInfo, write: &RoleWrite<'_>) -> Result<(), Status> {
    let resource = if write.namespace.is_empty() { "clusterroles" } else { "roles" };
    let escalate = Attributes {
        version: "*",
        name: write.request_name,
        namespace: write.namespace,
        ..Attributes::resource(user, "escalate", GROUP, resource)
    };
    if user.in_group(MASTERS) || authorizers.authorize(&escalate).allowed() {
        return Ok(());
    }
    let forbidden = |why: String| Status::forbidden(&GroupResource::new(GROUP, resource), write.name, why);
    confirm(authorizers, user, write.namespace, write.rules, resource).map_err(forbidden)?;
    // Who sets an aggregation rule can gather anything.
    let everything = [PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::paths(&["*"], &["*"])];
    if write.aggregated && confirm(authorizers, user, write.namespace, &everything, resource).is_err() {
        return Err(forbidden("must have cluster-admin privileges to use the aggregationRule".to_owned()));
    }
    Ok(())
}

/// Whether `user` may write the binding.
///
/// # Errors
/// The 403 that says what is missing, or the 404 of a role that is not there.
pub fn check_binding(authorizers: &Authorizers, user: &UserInfo, write: &BindingWrite<'_>) -> Result<(), Status> {
    let (resource, role_resource) = match (write.namespace, write.role.kind.as_str()) {
        ("", "ClusterRole") => ("clusterrolebindings", "clusterroles"),
        ("", _) => ("clusterrolebindings", "roles"),
        (_, "ClusterRole") => ("rolebindings", "clusterroles"),
        _ => ("rolebindings", "roles"),
    };
    let bind = Attributes {
        version: "*",
        name: &write.role.name,
        namespace: write.namespace,
        ..Attributes::resource(user, "bind", GROUP, role_resource)
    };
    if user.in_group(MASTERS) || authorizers.authorize(&bind).allowed() {
        return Ok(());
    }
    let rules = authorizers
        .rbac()
        .role_rules(write.role, write.namespace)
        // Upstream's text names the resource of the request, and the role's name.
        .map_err(|_| Status::not_found(&GroupResource::new(GROUP, resource), &write.role.name))?;
    confirm(authorizers, user, write.namespace, &rules, resource)
        .map_err(|why| Status::forbidden(&GroupResource::new(GROUP, resource), write.name, why))
}

/// Whether the user holds all of `rules` in the namespace (cluster-wide when it is empty); otherwise what is missing, in upstream's words.
fn confirm(
    authorizers: &Authorizers,
    user: &UserInfo,
    namespace: &str,
    rules: &[PolicyRule],
    resource: &str,
) -> Result<(), String> {
    let (held, unresolved) = authorizers.rbac().rules_for(user, namespace);
    let missing = covers(&held, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| quote(group)).collect();
    let mut text = format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        groups.join(" "),
        describe_missing(missing)
    );
    if let Some(errors) = unresolved_text(&unresolved, Some(resource)) {
        text.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(text)
}

#[cfg(test)]
mod tests;
