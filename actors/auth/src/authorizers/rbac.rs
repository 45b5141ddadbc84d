//! Role-based access control (upstream: `plugin/pkg/auth/authorizer/rbac`), with an index.
//!
//! Requests are decided on an immutable snapshot. The user and each of their groups map to the bindings that apply, cluster-wide and in the request's
//! namespace. Each binding refers to its role's compiled rules, which are found by the hash of verb, group and resource. The cost does not depend on
//! the number of roles, bindings and subjects. Changes arrive one object at a time ([`Change`]); a snapshot shares the unchanged parts with its
//! predecessor.

mod aggregate;
mod compact;
mod compiled;
mod covers;
mod index;
mod naive;
mod rule;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use aggregate::{AggregatedRole, aggregate};
pub use compact::describe_missing;
pub use covers::covers;
pub use index::{MissingRole, unresolved_text};
pub use naive::Policy;
pub use rule::PolicyRule;
pub use state::Change;

use crate::attributes::{Attributes, Decision};
use crate::grant::Grant;
pub use crate::grant::{Binding, RoleRef, Subject, SubjectKind};
use crate::user::UserInfo;
use index::Index;
use state::State;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The RBAC authorizer.
#[derive(Default)]
pub struct Rbac {
    index: ArcSwap<Index>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Rbac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rbac(..)")
    }
}

impl Rbac {
    /// Creates an authorizer without roles and bindings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies changes, in order, and publishes them together. Each call publishes one snapshot, so the initial load should be one call.
    pub fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        let mut state = self.state.lock();
        let mut next = Index::clone(&self.index.load());
        for change in changes {
            state.apply(change);
        }
        state.publish(&mut next);
        self.index.store(Arc::new(next));
    }

    /// Decides whether the policy allows the request.
    #[must_use]
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let index = self.index.load();
        let key = compiled::RequestKey::of(attributes);
        let mut missing = Vec::new();
        for scope in index.scopes(attributes.namespace) {
            for grants in scope.grants(attributes.user) {
                for grant in grants.iter() {
                    match &grant.role {
                        Ok(role) if role.allows(attributes, key) => {
                            let binding = Arc::clone(&grant.binding);
                            return Decision::Allow(Grant::Binding { binding, subject: grant.subject });
                        }
                        Ok(_) => {}
                        Err(why) => missing.push(why.clone()),
                    }
                }
            }
        }
        let errors = unresolved_text(&missing, None);
        Decision::NoOpinion(errors.map_or_else(String::new, |errors| format!("RBAC: {errors}")))
    }

    /// Returns all rules that apply to the user cluster-wide and, if `namespace` is not empty, in the namespace; and the missing roles. Each binding
    /// counts once, cluster-wide ones first, by name.
    #[must_use]
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<MissingRole>) {
        let index = self.index.load();
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for scope in index.scopes(namespace) {
            let mut grants: Vec<_> = scope.grants(user).flat_map(|grants| grants.iter()).collect();
            grants.sort_by(|a, b| a.binding.name.cmp(&b.binding.name));
            grants.dedup_by(|a, b| a.binding.name == b.binding.name);
            for grant in grants {
                match &grant.role {
                    Ok(role) => rules.extend(role.rules().iter().cloned()),
                    Err(why) => missing.push(why.clone()),
                }
            }
        }
        (rules, missing)
    }

    /// Returns the rules of the role that a reference names; `namespace` is the binding's, empty for a cluster-wide one.
    ///
    /// # Errors
    /// When the role does not exist.
    pub fn role_rules(&self, reference: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, MissingRole> {
        self.state.lock().resolve(reference, namespace).map(|role| role.rules().to_vec())
    }
}
