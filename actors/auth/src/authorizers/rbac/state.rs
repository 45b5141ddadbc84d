//! The writer's state, from which snapshots are built; tracks which part of the index each change affects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashMap;

use super::compiled::Role;
use super::index::{Granted, Index, MissingRole, Principal, principals};
use super::rule::PolicyRule;
use crate::grant::{Binding, RoleRef};

/// A change of one object. An empty namespace means the cluster-wide kind: ClusterRole, ClusterRoleBinding.
#[derive(Debug, Clone)]
pub enum Change {
    /// A role was created or updated.
    Role {
        /// Empty for a ClusterRole.
        namespace: CompactString,
        /// The role's name.
        name: CompactString,
        /// All rules of the role.
        rules: Vec<PolicyRule>,
    },
    /// A role was deleted.
    RoleGone {
        /// Empty for a ClusterRole.
        namespace: CompactString,
        /// The role's name.
        name: CompactString,
    },
    /// A binding was created or updated.
    Binding(Binding),
    /// A binding was deleted.
    BindingGone {
        /// Empty for a ClusterRoleBinding.
        namespace: CompactString,
        /// The binding's name.
        name: CompactString,
    },
}

/// Namespace (empty: cluster-wide) and name.
type Key = (CompactString, CompactString);

#[derive(Default)]
pub(super) struct State {
    roles: HashMap<Key, Arc<Role>>,
    bindings: HashMap<Key, Arc<Binding>>,
    /// The bindings that refer to a role.
    by_role: HashMap<Key, BTreeSet<Key>>,
    /// The bindings of a scope that apply to a principal, by name, with the subject's position.
    by_principal: HashMap<(CompactString, Principal), BTreeMap<CompactString, usize>>,
    /// The principals whose grants must be computed again.
    touched: BTreeSet<(CompactString, Principal)>,
}

impl State {
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Role { namespace, name, rules } => {
                let key = (namespace, name);
                self.touch_role(&key);
                self.roles.insert(key, Arc::new(Role::compile(rules)));
            }
            Change::RoleGone { namespace, name } => {
                let key = (namespace, name);
                self.touch_role(&key);
                self.roles.remove(&key);
            }
            Change::Binding(binding) => {
                let key = (binding.namespace.clone(), binding.name.clone());
                self.remove_binding(&key);
                self.insert_binding(key, binding);
            }
            Change::BindingGone { namespace, name } => self.remove_binding(&(namespace, name)),
        }
    }

    /// Writes the changed grants into the next snapshot.
    pub(super) fn publish(&mut self, index: &mut Index) {
        for (namespace, principal) in std::mem::take(&mut self.touched) {
            let grants = self.grants(&namespace, &principal);
            index.set(&namespace, principal, grants);
        }
    }

    /// Returns the role that a binding in `namespace` refers to.
    pub(super) fn resolve(&self, reference: &RoleRef, namespace: &str) -> Result<Arc<Role>, MissingRole> {
        let scope = match reference.kind.as_str() {
            // A cluster-wide binding cannot refer to a Role: the empty namespace would find a ClusterRole.
            "Role" if !namespace.is_empty() => namespace,
            "ClusterRole" => "",
            _ => return Err(MissingRole(reference.clone())),
        };
        let key = (CompactString::from(scope), reference.name.clone());
        self.roles.get(&key).cloned().ok_or_else(|| MissingRole(reference.clone()))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.by_role.is_empty() && self.by_principal.is_empty() && self.touched.is_empty()
    }

    fn grants(&self, namespace: &CompactString, principal: &Principal) -> Vec<Granted> {
        let Some(names) = self.by_principal.get(&(namespace.clone(), principal.clone())) else {
            return Vec::new();
        };
        let bindings = names.iter().filter_map(|(name, subject)| {
            let binding = self.bindings.get(&(namespace.clone(), name.clone()))?;
            let role = self.resolve(&binding.role, namespace);
            Some(Granted { binding: Arc::clone(binding), subject: *subject, role })
        });
        bindings.collect()
    }

    fn touch_role(&mut self, role: &Key) {
        for key in self.by_role.get(role).into_iter().flatten() {
            if let Some(binding) = self.bindings.get(key) {
                self.touched.extend(principals(binding).map(|(principal, _)| (key.0.clone(), principal)));
            }
        }
    }

    fn insert_binding(&mut self, key: Key, binding: Binding) {
        for (principal, position) in principals(&binding) {
            let scope = (key.0.clone(), principal);
            self.by_principal.entry(scope.clone()).or_default().entry(key.1.clone()).or_insert(position);
            self.touched.insert(scope);
        }
        self.by_role.entry(role_key(&binding)).or_default().insert(key.clone());
        self.bindings.insert(key, Arc::new(binding));
    }

    fn remove_binding(&mut self, key: &Key) {
        let Some(binding) = self.bindings.remove(key) else {
            return;
        };
        for (principal, _) in principals(&binding) {
            let scope = (key.0.clone(), principal);
            if let Some(names) = self.by_principal.get_mut(&scope) {
                names.remove(&key.1);
                if names.is_empty() {
                    self.by_principal.remove(&scope);
                }
            }
            self.touched.insert(scope);
        }
        let role = role_key(&binding);
        if let Some(users) = self.by_role.get_mut(&role) {
            users.remove(key);
            if users.is_empty() {
                self.by_role.remove(&role);
            }
        }
    }
}

fn role_key(binding: &Binding) -> Key {
    let namespace = if binding.role.kind == "Role" { binding.namespace.clone() } else { CompactString::default() };
    (namespace, binding.role.name.clone())
}
