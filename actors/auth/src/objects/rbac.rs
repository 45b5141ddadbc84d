//! Conversion of roles and bindings from API objects.

use compact_str::CompactString;
use oarlock_schema::Obj;
use oarlock_schema::views::{List, rbac_v1};

use crate::authorizers::rbac::{Binding, Change, PolicyRule, RoleRef, Subject, SubjectKind};

/// Returns the change for a created or updated role or binding; `None` for other objects.
pub(super) fn upserted(object: &Obj) -> Option<Change> {
    let (namespace, name) = (object.namespace(), object.name());
    let role =
        |rules| Some(Change::Role { namespace: namespace.into(), name: name.into(), rules: policy_rules(rules) });
    if let Some(view) = object.view::<rbac_v1::Role<'_>>() {
        return role(view.rules());
    }
    if let Some(view) = object.view::<rbac_v1::ClusterRole<'_>>() {
        return role(view.rules());
    }
    if let Some(view) = object.view::<rbac_v1::RoleBinding<'_>>() {
        return Some(Change::Binding(binding(namespace, name, view.role_ref(), view.subjects())));
    }
    let view = object.view::<rbac_v1::ClusterRoleBinding<'_>>()?;
    Some(Change::Binding(binding("", name, view.role_ref(), view.subjects())))
}

/// Converts the rules of a role.
#[must_use]
pub fn policy_rules(rules: List<'_, rbac_v1::PolicyRule<'_>>) -> Vec<PolicyRule> {
    let words = |list: List<'_, &str>| list.iter().map(CompactString::from).collect();
    rules
        .iter()
        .map(|rule| PolicyRule {
            verbs: words(rule.verbs()),
            api_groups: words(rule.api_groups()),
            resources: words(rule.resources()),
            resource_names: words(rule.resource_names()),
            non_resource_urls: words(rule.non_resource_urls()),
        })
        .collect()
}

/// Converts the role reference of a binding.
#[must_use]
pub fn role_ref(reference: rbac_v1::RoleRef<'_>) -> RoleRef {
    RoleRef { kind: reference.kind().into(), name: reference.name().into() }
}

/// Converts a binding; an empty namespace means a ClusterRoleBinding.
#[must_use]
pub fn binding(
    namespace: &str,
    name: &str,
    reference: rbac_v1::RoleRef<'_>,
    subjects: List<'_, rbac_v1::Subject<'_>>,
) -> Binding {
    let subject = |subject: rbac_v1::Subject<'_>| Subject {
        kind: match subject.kind() {
            "User" => SubjectKind::User,
            "Group" => SubjectKind::Group,
            "ServiceAccount" => SubjectKind::ServiceAccount,
            other => SubjectKind::Other(other.into()),
        },
        name: subject.name().into(),
        namespace: subject.namespace().into(),
    };
    Binding {
        namespace: namespace.into(),
        name: name.into(),
        role: role_ref(reference),
        subjects: subjects.iter().map(subject).collect(),
    }
}
