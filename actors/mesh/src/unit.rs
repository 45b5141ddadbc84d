//! Units of work, and the mapping of object keys to units.

use std::fmt;

use oarlock_schema::Str;

/// The number of parts into which the keys of partitioned work are split. Must never change: processes of all releases must map a key to the same part.
pub const PARTITIONS: u16 = 16;

/// A unit of work, assigned as a whole. Its text is the name of its Assignment: `controllers-3`, `singleton-node-lifecycle-controller`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unit(Str);

impl Unit {
    /// The unit of one part of partitioned work.
    #[must_use]
    pub fn part(of: &str, number: u16) -> Self {
        Self(format!("{of}-{number}").into())
    }

    /// The unit of this name, which must be a DNS label.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(name.into())
    }

    /// The unit of work that only one process does at a time.
    #[must_use]
    pub fn singleton(name: &str) -> Self {
        Self(format!("singleton-{name}").into())
    }

    /// Returns the name of the unit's Assignment.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The units of some work, and the mapping of object keys to them.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All keys belong to one unit.
    One(Unit),
    /// Each key belongs to one of several units, by the key's hash.
    Parts(Vec<Unit>),
}

impl Scope {
    /// The scope of work `name` whose keys are split into [`PARTITIONS`] parts.
    #[must_use]
    pub fn parts(name: &str) -> Self {
        Self::Parts((0..PARTITIONS).map(|number| Unit::part(name, number)).collect())
    }

    /// Returns the units of the scope.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        match self {
            Self::One(unit) => std::slice::from_ref(unit),
            Self::Parts(units) => units,
        }
    }

    /// Returns the unit of the key `namespace/name`.
    #[must_use]
    pub fn unit(&self, namespace: &str, name: &str) -> Option<&Unit> {
        self.units().get(self.part(namespace, name))
    }

    /// Returns the position among [`Scope::units`] of the unit of the key `namespace/name`.
    #[must_use]
    pub fn part(&self, namespace: &str, name: &str) -> usize {
        let parts = u64::try_from(self.units().len().max(1)).unwrap_or(1);
        usize::try_from(hash(namespace, name) % parts).unwrap_or(0)
    }
}

/// Returns the FNV-1a hash of `namespace/name` with the high bits folded into the low bits, which alone are badly distributed. Must never change.
fn hash(namespace: &str, name: &str) -> u64 {
    let bytes = namespace.bytes().chain([b'/']).chain(name.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_change_and_are_even() {
        let scope = Scope::parts("controllers");
        let part = |namespace: &str, name: &str| scope.unit(namespace, name).unwrap().to_string();
        // Processes of two releases with different hashes would reconcile the same keys.
        assert_eq!([part("default", "web"), part("", "node-1")], ["controllers-3", "controllers-10"]);
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for number in 0..16_000 {
            *counts.entry(part("default", &format!("web-{number}"))).or_default() += 1;
        }
        assert_eq!(counts.len(), usize::from(PARTITIONS));
        assert!(counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
