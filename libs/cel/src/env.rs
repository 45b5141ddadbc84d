//! The environment of an expression: the declared variables and options.

use std::collections::BTreeMap;

use crate::types::Type;

/// The variables of an expression with their types. The functions are always those of Kubernetes.
///
/// A name with dots (`variables.replicas`) is a variable of its own and takes precedence over the field of the variable named by its first word.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: BTreeMap<String, Type>,
    bindings: bool,
    escaped: bool,
}

impl Env {
    /// Makes an environment without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable, replacing an earlier declaration.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.declare(name, ty);
        self
    }

    /// Declares a variable, replacing an earlier declaration.
    pub fn declare(&mut self, name: impl Into<String>, ty: Type) {
        self.variables.insert(name.into(), ty);
    }

    /// Enables `cel.bind`, which Kubernetes does not offer.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    /// Reads field names with Kubernetes' escapes of schema properties (`__dash__`), so that expressions can name fields that are no identifiers. Policies see
    /// objects without a schema, with unescaped names.
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
