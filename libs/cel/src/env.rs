//! What an expression may name.

use std::collections::BTreeMap;

use crate::types::Type;

/// Variables with their types. Functions are always Kubernetes' own.
///
/// A name with dots (`variables.replicas`) is a variable of its own; it comes before the field of the variable that its first word is.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: BTreeMap<String, Type>,
    bindings: bool,
    escaped: bool,
}

impl Env {
    /// Nothing but functions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable, or declares it anew.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.declare(name, ty);
        self
    }

    /// Declares a variable, or declares it anew.
    pub fn declare(&mut self, name: impl Into<String>, ty: Type) {
        self.variables.insert(name.into(), ty);
    }

    /// Allows `cel.bind`, which Kubernetes does not.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    /// Reads field names as Kubernetes escapes those of schemas (`__dash__`), so that names can be written that are no identifiers. Policies see
    /// objects without a schema, and names as they are.
    #[must_use]
    pub fn with_escaped_fields(mut self) -> Self {
        self.escaped = true;
        self
    }

    pub(crate) fn escaped(&self) -> bool {
        self.escaped
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    pub(crate) fn bindings(&self) -> bool {
        self.bindings
    }
}
