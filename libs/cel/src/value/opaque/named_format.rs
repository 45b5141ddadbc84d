//! The type of Kubernetes' named formats.

use std::fmt;

/// A named format, with the check of texts; the list of formats is with the functions.
pub struct NamedFormat {
    pub(crate) name: &'static str,
    pub(crate) errors: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
