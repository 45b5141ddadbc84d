//! A set of the earlier values of a list, for rules that forbid duplicates: a list may be as long as the body, and searching the list at each
//! item would cost the square of its length.

use std::collections::BTreeSet;

use oarlock_seeded_bug::seeded_bug;

/// The values of a list that have occurred so far.
#[derive(Debug)]
pub(crate) struct Seen<T>(BTreeSet<T>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Seen<T> {
    /// Makes an empty set.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Whether the value has occurred.
    pub(crate) fn contains(&self, value: &T) -> bool {
        if seeded_bug!("uniqueness_by_search") {
            return self.0.iter().any(|known| known == value);
        }
        self.0.contains(value)
    }

    /// Records a value.
    pub(crate) fn push(&mut self, value: T) {
        self.0.insert(value);
    }

    /// Records a value. Returns whether the value had occurred before.
    pub(crate) fn is_repeat(&mut self, value: T) -> bool {
        let again = self.contains(&value);
        self.push(value);
        again
    }
}

impl<T: Ord> FromIterator<T> for Seen<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
