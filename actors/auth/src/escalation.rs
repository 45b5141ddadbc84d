//! Escalation checks: no user grants permissions they do not hold (upstream: `pkg/registry/rbac/*/policybased`). The writer of a role must hold all
//! its rules or the verb `escalate` on it; the writer of a binding must hold all rules of the role or the verb `bind` on it.
//!
//! The checks themselves decide about `system:masters`. The caller may skip them only for updates that change nothing but finalizers and owner
//! references.

use oarlock_meta::{GroupResource, Status, quote::quote};

use crate::attributes::Attributes;
use crate::authorizers::Authorizers;
use crate::authorizers::rbac::{GROUP, PolicyRule, RoleRef, covers, describe_missing, unresolved_text};
use crate::user::{MASTERS, UserInfo};

/// A request to write a role.
#[derive(Debug, Clone, Copy)]
pub struct RoleWrite<'a> {
    /// Empty for a ClusterRole.
    pub namespace: &'a str,
    /// The name in the URL; empty on creation.
    pub request_name: &'a str,
    /// The role's name.
    pub name: &'a str,
    /// The requested rules.
    pub rules: &'a [PolicyRule],
    /// Whether the new or the old role has an aggregation rule.
    pub aggregated: bool,
}

/// A request to write a binding.
#[derive(Debug, Clone, Copy)]
pub struct BindingWrite<'a> {
    /// Empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    /// The binding's name.
    pub name: &'a str,
    /// The role that the binding grants.
    pub role: &'a RoleRef,
}

/// Checks whether `user` may write the role.
///
/// # Errors
/// A 403 with the missing permissions.
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
    // A user who sets an aggregation rule can collect any rules.
    let everything = [PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::paths(&["*"], &["*"])];
    if write.aggregated && confirm(authorizers, user, write.namespace, &everything, resource).is_err() {
        return Err(forbidden("must have cluster-admin privileges to use the aggregationRule".to_owned()));
    }
    Ok(())
}

/// Checks whether `user` may write the binding.
///
/// # Errors
/// A 403 with the missing permissions, or a 404 when the role does not exist.
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
        // Upstream's text has the resource of the request and the name of the role.
        .map_err(|_| Status::not_found(&GroupResource::new(GROUP, resource), &write.role.name))?;
    confirm(authorizers, user, write.namespace, &rules, resource)
        .map_err(|why| Status::forbidden(&GroupResource::new(GROUP, resource), write.name, why))
}

/// Checks that the user holds all of `rules` in the namespace (cluster-wide when it is empty); the error lists the missing permissions in upstream's
/// words.
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
