//! The distribution of a controller's work over several processes.

use oarlock_mesh::{Scope, Unit};

/// The unit prefix of all controllers that are partitioned by key. Must never change, because Assignments in existing clusters contain the prefix.
pub(crate) const PARTS: &str = "controllers";

/// The unit of all controllers that call the cloud. A single unit, so that only one process at a time calls the provider.
pub(crate) const CLOUD_UNIT: &str = "cloud";

/// How a controller's work is distributed over several processes.
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
    /// Returns the units of a controller of this name.
    pub(crate) fn scope(self, name: &str) -> Scope {
        match self {
            Self::Key => Scope::parts(PARTS),
            Self::Singleton => Scope::One(Unit::singleton(name)),
            Self::Cloud => Scope::One(Unit::named(CLOUD_UNIT)),
        }
    }
}
