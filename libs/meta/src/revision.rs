//! The store's revision counter, which is also every object's `resourceVersion`.
//!
//! Each write of an object gets one strictly rising 64-bit number, global to the store (KEP-5504: clients may compare the resource versions of one resource
//! as integers). Gaps are legal: code may compare revisions but must not count them.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A position in the store's total order of writes; `0` is before every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The position before the first write.
    pub const ZERO: Self = Self(0);
    /// The highest possible position, which no write ever gets.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the revision as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next position, whether or not a write has it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether this revision is the position before every write.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<u64> for Revision {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl FromStr for Revision {
    type Err = ParseIntError;

    /// Reads the decimal form used on the wire. A sign is refused, as upstream's `ParseUint` does.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('+') {
            return "".parse().map(Self);
        }
        text.parse().map(Self)
    }
}

/// Returns upstream's message for a text that is no revision.
#[must_use]
pub fn invalid_syntax(text: &str) -> String {
    format!("strconv.ParseUint: parsing {}: invalid syntax", crate::quote::quote(text))
}

#[cfg(test)]
mod tests {
    use super::Revision;

    #[test]
    fn reads_what_it_writes() {
        assert_eq!(Revision(42).to_string().parse(), Ok(Revision(42)));
    }

    #[test]
    fn refuses_signs_spaces_and_overflow() {
        for text in ["", "+1", "-1", " 1", "1.0", "18446744073709551616"] {
            assert!(text.parse::<Revision>().is_err(), "{text:?} was accepted");
        }
    }
}
