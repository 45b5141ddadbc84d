//! Privilege escalation check: a writer of roles and bindings must hold every permission that they grant (upstream: the policy-based storage of
//! `rbac.authorization.k8s.io`).

use oarlock_auth::escalation::{BindingWrite, RoleWrite, check_binding, check_role};
use oarlock_auth::objects::{policy_rules, role_ref};
use oarlock_meta::Status;
use oarlock_schema::views::rbac_v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use oarlock_schema::{Obj, Value, canonical};
use oarlock_seeded_bug::seeded_bug;

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Checks a new or changed role or binding; objects of other kinds pass.
///
/// # Errors
/// 403 that names the permissions that the writer lacks.
pub(crate) fn check(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    new: &Obj,
    old: Option<&Obj>,
) -> Result<(), Status> {
    if target.resource().group != "rbac.authorization.k8s.io" || old.is_some_and(|old| grants_the_same(new, old)) {
        return Ok(());
    }
    let (namespace, name) = (new.namespace(), new.name());
    let rules = match (new.view::<ClusterRole<'_>>(), new.view::<Role<'_>>()) {
        // Removing the aggregation rule requires the right to aggregate too: without the rule, the aggregated rules would no longer follow later
        // changes.
        (Some(role), _) => Some((policy_rules(role.rules()), aggregates(new) || old.is_some_and(aggregates))),
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

fn aggregates(role: &Obj) -> bool {
    let rule = role.view::<ClusterRole<'_>>().and_then(|role| role.aggregation_rule());
    rule.is_some_and(|rule| !rule.cluster_role_selectors().is_empty())
}

/// Metadata fields that grant nothing: those that the garbage collector writes (upstream `IsOnlyMutatingGCFields`) and those that the server
/// maintains.
const NO_GRANT: [&str; 10] = [
    "ownerReferences",
    "finalizers",
    "managedFields",
    "selfLink",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Whether two states of a role or binding differ only in fields that grant nothing. Labels can grant: aggregation rules select roles by labels.
fn grants_the_same(new: &Obj, old: &Obj) -> bool {
    let granting = |obj: &Obj| {
        let mut obj = obj.clone();
        canonical::canonicalize(&mut obj);
        obj.retain(|def, value| !matches!(def.name, "kind" | "apiVersion") && !is_empty(value));
        if let Some(metadata) = obj.get_mut("metadata").and_then(Value::as_struct_mut) {
            metadata.retain(|def, value| !grants_nothing(def.name) && !is_empty(value));
        }
        obj
    };
    granting(new) == granting(old)
}

fn grants_nothing(metadata: &str) -> bool {
    NO_GRANT.contains(&metadata) || (metadata == "labels" && seeded_bug!("labels_grant_nothing"))
}

/// Whether a value is empty. Upstream's comparison does not distinguish empty from absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obj(plural: &str, json: &str) -> Obj {
        let row = oarlock_schema::resource("rbac.authorization.k8s.io", "v1", plural).unwrap();
        oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap()
    }

    const ROLE: &str = r#"{"metadata":{"name":"a","uid":"1","resourceVersion":"1","labels":{"a":"b"},"annotations":{"a":"b"}},
        "rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}],
        "aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
    const BINDING: &str = r#"{"metadata":{"name":"a","uid":"1","resourceVersion":"1"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
        "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}"#;

    #[test]
    fn only_what_the_garbage_collector_and_the_server_write_grants_nothing() {
        for (plural, json) in [("clusterroles", ROLE), ("rolebindings", BINDING), ("clusterrolebindings", BINDING)] {
            let old = obj(plural, json);
            let mut new = old.clone();
            assert!(grants_the_same(&new, &old), "{plural}");
            new.meta_mut().unwrap().set_resource_version("2").set_generation(2);
            new.meta_mut().unwrap().finalizers_mut().push("example.org/one".into());
            assert!(grants_the_same(&new, &old), "{plural}");
        }
    }

    #[test]
    fn a_label_or_an_annotation_of_a_role_or_binding_can_grant() {
        for (plural, json) in
            [("clusterroles", ROLE), ("roles", ROLE), ("rolebindings", BINDING), ("clusterrolebindings", BINDING)]
        {
            let old = obj(plural, json);
            let mut labelled = old.clone();
            let view = "rbac.authorization.k8s.io/aggregate-to-view";
            labelled.meta_mut().unwrap().labels_mut().insert(view, "true");
            assert!(!grants_the_same(&labelled, &old), "{plural}");
            assert!(!grants_the_same(&old, &labelled), "{plural}");
            let mut annotated = old.clone();
            annotated.meta_mut().unwrap().annotations_mut().insert("x", "y");
            assert!(!grants_the_same(&annotated, &old), "{plural}");
        }
    }

    #[test]
    fn what_a_role_or_binding_says_can_grant() {
        let old = obj("clusterroles", ROLE);
        for field in ["rules", "aggregationRule"] {
            let mut new = old.clone();
            new.remove_name(field).unwrap();
            assert!(!grants_the_same(&new, &old), "{field}");
        }
        let old = obj("clusterrolebindings", BINDING);
        for field in ["subjects", "roleRef"] {
            let mut new = old.clone();
            new.remove_name(field).unwrap();
            assert!(!grants_the_same(&new, &old), "{field}");
        }
    }

    #[test]
    fn an_empty_list_is_none() {
        let old = obj("clusterroles", r#"{"metadata":{"name":"a"},"rules":null}"#);
        let new = obj("clusterroles", r#"{"metadata":{"name":"a","labels":{},"finalizers":[]},"rules":[]}"#);
        assert!(grants_the_same(&new, &old));
    }

    #[test]
    fn an_aggregation_rule_counts_when_it_gathers() {
        assert!(aggregates(&obj("clusterroles", ROLE)));
        assert!(!aggregates(&obj("clusterroles", r#"{"metadata":{"name":"a"},"aggregationRule":{}}"#)));
        assert!(!aggregates(&obj("clusterroles", r#"{"metadata":{"name":"a"}}"#)));
    }
}
