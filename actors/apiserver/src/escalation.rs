//! Nobody grants what they do not hold: roles and bindings are checked against the writer before they are stored (upstream: the
//! policy-based storage of `rbac.authorization.k8s.io`).

use oarlock_auth::escalation::{BindingWrite, RoleWrite, check_binding, check_role};
use oarlock_auth::objects::{policy_rules, role_ref};
use oarlock_meta::Status;
use oarlock_schema::views::rbac_v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use oarlock_schema::{Obj, Value};

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Checks a new or changed role or binding; other kinds pass.
///
/// # Errors
/// 403 that says which permissions the writer lacks.
pub(crate) fn check(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    new: &Obj,
    old: Option<&Obj>,
) -> Result<(), Status> {
    if target.resource().group != "rbac.authorization.k8s.io" || old.is_some_and(|old| same_grant(new, old)) {
        return Ok(());
    }
    let (namespace, name) = (new.namespace(), new.name());
    let rules = match (new.view::<ClusterRole<'_>>(), new.view::<Role<'_>>()) {
        (Some(role), _) => Some((policy_rules(role.rules()), role.aggregation_rule().is_some())),
        (_, Some(role)) => Some((policy_rules(role.rules()), false)),
        _ => None,
    };
    if let Some((rules, aggregated)) = rules {
        let write = RoleWrite { namespace, name, request_name: target.name, rules: &rules, aggregated };
        return check_role(server.authorizers(), &caller.user, &write);
    }
    let reference = match (new.view::<ClusterRoleBinding<'_>>(), new.view::<RoleBinding<'_>>()) {
        (Some(binding), _) => role_ref(binding.role_ref()),
        (_, Some(binding)) => role_ref(binding.role_ref()),
        _ => return Ok(()),
    };
    check_binding(server.authorizers(), &caller.user, &BindingWrite { namespace, name, role: &reference })
}

/// A change that touches only metadata grants nothing new (the garbage collector's finalizers and owner references).
fn same_grant(new: &Obj, old: &Obj) -> bool {
    let same =
        |field: &str| new.get(field).filter(|v| !Value::is_null(v)) == old.get(field).filter(|v| !Value::is_null(v));
    ["rules", "aggregationRule", "roleRef", "subjects"].iter().all(|field| same(field))
}
