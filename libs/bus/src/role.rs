//! Roles and identities of bus members.

use std::fmt;
use std::sync::Arc;

use crate::name::{self, BadName};

/// Role of a process on the bus; it decides which subjects the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// An API server.
    ApiServer,
    /// A controller manager.
    Controllers,
    /// A scheduler.
    Scheduler,
    /// A remote stage of admission.
    Admission,
    /// A cloud controller manager.
    Cloud,
    /// A kubelet; the only role each of whose members has a credential of its own.
    Node,
    /// A read-only client that inspects the cluster.
    Inspector,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 7] = [
        Self::ApiServer,
        Self::Controllers,
        Self::Scheduler,
        Self::Admission,
        Self::Cloud,
        Self::Node,
        Self::Inspector,
    ];

    /// Returns the role's token in subjects, which is also its name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Controllers => "controllers",
            Self::Scheduler => "scheduler",
            Self::Admission => "admission",
            Self::Cloud => "cloud",
            Self::Node => "node",
            Self::Inspector => "inspector",
        }
    }

    /// Returns the role of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == token)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A member of a role: `scheduler/oarlock-scheduler-h1-1b85bbe1`, `node/n1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    role: Role,
    name: Arc<str>,
    token: Arc<str>,
}

impl Identity {
    /// Creates an identity. The name must be unique among the running members of the role, since members of one name would receive each other's answers.
    ///
    /// # Errors
    /// For a name that cannot be part of a subject.
    pub fn new(role: Role, name: &str) -> Result<Self, BadName> {
        Ok(Self { role, name: name.into(), token: name::token(name)?.into() })
    }

    pub(crate) fn from_token(role: Role, token: &str) -> Option<Self> {
        Some(Self { role, name: name::from_token(token)?.into(), token: token.into() })
    }

    /// Returns the role.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns the name within the role; for a node, the name of its Node object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the subject prefix under which the member receives answers; the member chooses the tokens after it.
    pub(crate) fn inbox(&self) -> String {
        format!("_INBOX_{}.{}", self.role, self.token)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role, self.name)
    }
}
