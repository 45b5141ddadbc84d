//! The reason why a request is allowed: a role binding, or a built-in rule.

use std::sync::Arc;

use compact_str::CompactString;
use oarlock_meta::quote::quote;
use serde::{Deserialize, Serialize};

/// The binding or built-in rule that allowed a request. The text is formatted only on demand.
#[derive(Debug, Clone)]
pub enum Grant {
    /// A built-in rule that upstream gives no reason for: `system:masters`, or the Node authorizer.
    BuiltIn,
    /// A role binding, through one of its subjects.
    Binding {
        /// The binding.
        binding: Arc<Binding>,
        /// The position of the first subject that matches.
        subject: usize,
    },
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => Ok(()),
            Self::Binding { binding, subject } => write!(f, "RBAC: allowed by {}", binding.describe(*subject)),
        }
    }
}

/// The kind of a binding's subject.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A user by name.
    User,
    /// A group by name.
    Group,
    /// A ServiceAccount by namespace and name.
    ServiceAccount,
    /// An invalid kind, which validation refuses; matches no user.
    #[serde(untagged)]
    Other(CompactString),
}

/// A user, group or ServiceAccount that a binding applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The kind of the subject.
    pub kind: SubjectKind,
    /// The name.
    pub name: CompactString,
    /// A ServiceAccount's namespace; empty means the binding's own.
    #[serde(default)]
    pub namespace: CompactString,
}

/// A binding's reference to its role.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: CompactString,
    /// The role's name.
    pub name: CompactString,
}

/// A RoleBinding, or a ClusterRoleBinding if it has no namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The binding's namespace; empty for a cluster-wide one.
    pub namespace: CompactString,
    /// The binding's name.
    pub name: CompactString,
    /// The granted role.
    pub role: RoleRef,
    /// The users, groups and ServiceAccounts that get the role.
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// Formats the binding for one of its subjects, as upstream's reasons do.
    #[must_use]
    pub fn describe(&self, subject: usize) -> String {
        let to = self.subjects.get(subject).map(|s| self.describe_subject(s)).unwrap_or_default();
        let (kind, name) = (&self.role.kind, quote(&self.role.name));
        if self.namespace.is_empty() {
            return format!("ClusterRoleBinding {} of {kind} {name} to {to}", quote(&self.name));
        }
        let binding = quote(&format!("{}/{}", self.name, self.namespace));
        format!("RoleBinding {binding} of {kind} {name} to {to}")
    }

    fn describe_subject(&self, subject: &Subject) -> String {
        match &subject.kind {
            SubjectKind::User => format!("User {}", quote(&subject.name)),
            SubjectKind::Group => format!("Group {}", quote(&subject.name)),
            SubjectKind::Other(kind) => format!("{kind} {}", quote(&subject.name)),
            SubjectKind::ServiceAccount => {
                let namespace = if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace };
                format!("ServiceAccount {}", quote(&format!("{}/{namespace}", subject.name)))
            }
        }
    }
}
