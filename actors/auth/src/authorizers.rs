//! Authorization of requests. The chain is upstream's for `--authorization-mode Node,RBAC`: `system:masters` first, then Node, then RBAC.

pub mod node;
pub mod rbac;
mod system_masters;

use std::sync::Arc;

use node::NodeAuthorizer;
use rbac::{PolicyRule, Rbac, unresolved_text};

use crate::attributes::{Attributes, Decision};
use crate::user::UserInfo;

/// The chain of authorizers. Cheap to clone; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Authorizers {
    node: Arc<NodeAuthorizer>,
    rbac: Arc<Rbac>,
}

/// The rules that apply to a user, as far as they can be listed: the answer to a SelfSubjectRulesReview.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedRules {
    /// Rules about resources; a rule about both resources and paths is in both lists.
    pub resource: Vec<PolicyRule>,
    /// Rules about paths.
    pub non_resource: Vec<PolicyRule>,
    /// Whether the user may do more than these rules allow.
    pub incomplete: bool,
    /// The rules that could not be resolved, in upstream's words.
    pub evaluation_error: String,
}

impl Authorizers {
    /// Creates a chain without any policy: only `system:masters` is allowed anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the Node authorizer, which receives pods, volumes and slices.
    #[must_use]
    pub fn node(&self) -> &NodeAuthorizer {
        &self.node
    }

    /// Returns the RBAC authorizer, which receives roles and bindings.
    #[must_use]
    pub fn rbac(&self) -> &Rbac {
        &self.rbac
    }

    /// Asks the authorizers in order until one decides. If none does, returns `NoOpinion` with all reasons, and the request is refused.
    #[must_use]
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if let Some(grant) = system_masters::authorize(attributes.user) {
            return Decision::Allow(grant);
        }
        let first = match self.node.authorize(attributes) {
            Decision::NoOpinion(reason) => reason,
            decided => return decided,
        };
        match self.rbac.authorize(attributes) {
            Decision::NoOpinion(second) if first.is_empty() => Decision::NoOpinion(second),
            Decision::NoOpinion(second) if second.is_empty() => Decision::NoOpinion(first),
            Decision::NoOpinion(second) => Decision::NoOpinion(format!("{first}\n{second}")),
            decided => decided,
        }
    }

    /// Returns all rules that apply to the user in the namespace.
    #[must_use]
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> ResolvedRules {
        let (rules, unresolved) = self.rbac.rules_for(user, namespace);
        let mut errors = Vec::new();
        let incomplete = user.node_name().is_some();
        if incomplete {
            errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        errors.extend(unresolved_text(&unresolved, None));
        ResolvedRules {
            resource: rules.iter().filter(|rule| !rule.resources.is_empty()).cloned().collect(),
            non_resource: rules.into_iter().filter(|rule| !rule.non_resource_urls.is_empty()).collect(),
            incomplete,
            evaluation_error: match errors.as_slice() {
                [one] => one.clone(),
                [] => String::new(),
                many => format!("[{}]", many.join(", ")),
            },
        }
    }
}
