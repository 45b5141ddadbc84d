//! The key of an object within its resource: namespace and name.

use std::fmt;
use std::str::FromStr;

use oarlock_schema::Str;

/// The key of an object within its resource: namespace and name, ordered by namespace first. Prints as `namespace/name`, or `name` for
/// cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: Str,
    /// The name.
    pub name: Str,
}

impl Key {
    /// The key of an object; the namespace is empty for cluster-scoped objects.
    #[must_use]
    pub fn new(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: impl Into<Str>) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl FromStr for Key {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Ok(Self::new(namespace, name))
    }
}
