//! Typed identifiers, so that the compiler keeps identifiers and other text apart.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// An object's `metadata.uid`, which identifies one incarnation of the object for ever. Mostly a UUID, but clients may send any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub CompactString);

impl Uid {
    /// Returns the uid as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the uid is unset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<T: Into<CompactString>> From<T> for Uid {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}
