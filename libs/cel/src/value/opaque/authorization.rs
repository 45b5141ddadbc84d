//! Questions of expressions to the authorizer, and its decisions.

use std::sync::Arc;

use super::Opaque;
use crate::value::Value;

/// The question of an expression to the authorizer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AccessQuery {
    /// Namespace and name of the ServiceAccount in question; `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// A non-resource path; all fields below are empty for such a path.
    pub path: String,
    /// API group.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Field selector as text, or empty.
    pub field_selector: String,
    /// Label selector as text, or empty.
    pub label_selector: String,
    /// The verb.
    pub verb: String,
}

/// The authorizer's decision.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Whether the access is allowed.
    pub allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error that occurred during the decision, if any.
    pub error: Option<String>,
}

/// An authorizer that answers the questions of expressions.
pub trait Authorizer {
    /// Returns the decision about an access.
    fn check(&self, query: &AccessQuery) -> Decision;
}

/// An authorizer question under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessRequest {
    pub(crate) query: AccessQuery,
    check: Check,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl AccessRequest {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.check {
            Check::Authorizer => "kubernetes.authorization.Authorizer",
            Check::Path => "kubernetes.authorization.PathCheck",
            Check::Group => "kubernetes.authorization.GroupCheck",
            Check::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }
}

impl Value<'_> {
    /// Returns the value of the variable `authorizer`.
    #[must_use]
    pub fn authorizer() -> Self {
        Self::access(AccessQuery::default(), Check::Authorizer)
    }

    /// Returns a resource check, the value of a variable such as `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check(query: AccessQuery) -> Self {
        Self::access(query, Check::Resource)
    }

    pub(crate) fn access(query: AccessQuery, check: Check) -> Self {
        Self::Opaque(Opaque::Access(Arc::new(AccessRequest { query, check })))
    }
}
