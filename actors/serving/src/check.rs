//! Health checks and their results.

use std::sync::Arc;

/// The result of one health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check's name.
    pub name: &'static str,
    /// Why the check failed; `None` if it succeeded.
    pub wrong: Option<String>,
    /// Whether the result is only reported and does not fail the endpoint.
    pub informs: bool,
}

/// A named health check, run at each request.
#[derive(Clone)]
pub struct Check {
    name: &'static str,
    informs: bool,
    look: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).field("informs", &self.informs).finish_non_exhaustive()
    }
}

impl Check {
    /// A check that fails the endpoint when `look` returns an error.
    pub fn new(name: &'static str, look: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, informs: false, look: Arc::new(look) }
    }

    /// Makes the check informational: its result is reported, but does not fail the endpoint.
    #[must_use]
    pub fn informs(self) -> Self {
        Self { informs: true, ..self }
    }

    /// Returns the check's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check.
    #[must_use]
    pub fn find(&self) -> Finding {
        Finding { name: self.name, wrong: (self.look)().err(), informs: self.informs }
    }
}
