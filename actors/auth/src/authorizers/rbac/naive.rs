//! RBAC decisions by a plain scan over all objects. Serves as the reference that the index is tested against, and for policies that are not in force,
//! such as a fixed list of rules.

use super::rule::PolicyRule;
use crate::attributes::Attributes;
use crate::grant::{Binding, SubjectKind};
use crate::user::{UserInfo, service_account_name};

/// Roles and bindings as plain lists.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Namespace (empty: ClusterRole), name and rules of each role.
    pub roles: Vec<(String, String, Vec<PolicyRule>)>,
    /// RoleBindings and ClusterRoleBindings.
    pub bindings: Vec<Binding>,
}

impl Policy {
    /// Whether any rule of any applicable binding allows the request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        self.bindings.iter().any(|binding| {
            let in_scope = binding.namespace.is_empty() || binding.namespace == attributes.namespace;
            in_scope
                && binding.subjects.iter().any(|subject| {
                    let namespace = if subject.namespace.is_empty() { &binding.namespace } else { &subject.namespace };
                    applies(attributes.user, &subject.kind, &subject.name, namespace)
                })
                && self.rules(binding).is_some_and(|rules| rules.iter().any(|rule| rule.allows(attributes)))
        })
    }

    fn rules(&self, binding: &Binding) -> Option<&[PolicyRule]> {
        let namespace = match binding.role.kind.as_str() {
            "Role" if !binding.namespace.is_empty() => binding.namespace.as_str(),
            "ClusterRole" => "",
            _ => return None,
        };
        self.roles
            .iter()
            .find(|(ns, name, _)| ns == namespace && *name == binding.role.name)
            .map(|(_, _, rules)| rules.as_slice())
    }
}

fn applies(user: &UserInfo, kind: &SubjectKind, name: &str, namespace: &str) -> bool {
    match kind {
        SubjectKind::User => user.name == name,
        SubjectKind::Group => user.in_group(name),
        SubjectKind::ServiceAccount => !namespace.is_empty() && user.name == service_account_name(namespace, name),
        SubjectKind::Other(_) => false,
    }
}
