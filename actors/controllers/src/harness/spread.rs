//! Which of several processes runs a controller.

use oarlock_mesh::{Scope, Unit};

/// Unit prefix of all controllers that are partitioned by key. Assignments in a cluster hold it, so it stays what it is.
pub(crate) const PARTS: &str = "controllers";

/// Unit of everything that reaches the cloud. There is one, so that one process at a time calls the provider.
pub(crate) const CLOUD_UNIT: &str = "cloud";

/// Where a controller runs when there are several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Partitioned by the key that owns the decision; the units are `controllers-<part>`.
    Key,
    /// In one process; the unit is `singleton-<name>`.
    Singleton,
    /// In the process that holds unit `cloud`, which moves only when its holder has certainly stopped.
    Cloud,
}

impl Spread {
    /// The units that a controller of this name works for.
    pub(crate) fn scope(self, name: &str) -> Scope {
        match self {
            Self::Key => Scope::parts(PARTS),
            Self::Singleton => Scope::One(Unit::singleton(name)),
            Self::Cloud => Scope::One(Unit::named(CLOUD_UNIT)),
        }
    }
}
