//! Sets of Job indexes, as ranges and as text: `1,3-5,7` (upstream `orderedIntervals`).

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes as sorted ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses a text; ignores invalid parts, and indexes at or above `completions`.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut indexes = Self::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) else { continue };
            if first >= completions {
                break;
            }
            indexes.0.push((first, last.min(completions.saturating_sub(1))));
        }
        indexes.joined()
    }

    /// Returns the union with another set.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect()).joined()
    }

    fn joined(mut self) -> Self {
        self.0.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0 {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// The number of indexes in the set.
    pub(super) fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether the set contains `index`.
    pub(super) fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// The number of indexes in both sets.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let (mut left, mut right, mut total) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some((a, b)), Some((c, d))) = (left.peek(), right.peek()) {
            total += (b.min(d) - a.max(c) + 1).max(0);
            if b <= d {
                left.next();
            } else {
                right.next();
            }
        }
        total
    }

    /// Returns the first `count` indexes below `completions` that are not in the set.
    pub(super) fn missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut from = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            missing.extend((from..first.min(completions)).take(count.saturating_sub(missing.len())));
            from = last.saturating_add(1).max(from);
        }
        missing
    }
}

impl FromIterator<i64> for Indexes {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Self {
        let unique: BTreeSet<i64> = indexes.into_iter().collect();
        Self(unique.into_iter().map(|index| (index, index)).collect()).joined()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Indexes {
        Indexes::parse(text, 100)
    }

    #[test]
    fn reads_what_it_writes_and_passes_over_what_it_cannot_read() {
        for (text, wanted) in [
            ("", ""),
            ("0", "0"),
            ("0,1", "0,1"),
            ("0,1,2", "0-2"),
            ("3-5,6", "3-6"),
            ("1,x,3-y,5", "1,5"),
            ("7,98-200", "7,98,99"),
            ("7,100,101", "7"),
        ] {
            assert_eq!(of(text).to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn ranges_join_where_they_touch() {
        assert_eq!(of("1-3,8").and(&of("4,6-7")).to_string(), "1-4,6-8");
        assert_eq!([5, 3, 4, 3, 9].into_iter().collect::<Indexes>().to_string(), "3-5,9");
    }

    #[test]
    fn counts_and_finds() {
        let indexes = of("1-3,8,10-12");
        assert_eq!(indexes.total(), 7);
        let found: Vec<i64> = (0..14).filter(|index| indexes.has(*index)).collect();
        assert_eq!(found, [1, 2, 3, 8, 10, 11, 12]);
        assert_eq!(indexes.common(&of("0-1,3-9,12-20")), 4);
        assert_eq!(indexes.common(&Indexes::default()), 0);
    }

    #[test]
    fn names_the_first_that_are_missing() {
        assert_eq!(of("0-1,3").missing(3, 7), [2, 4, 5]);
        assert_eq!(of("0-1,3").missing(9, 7), [2, 4, 5, 6]);
        assert_eq!(of("0-6").missing(2, 7), [0_i64; 0]);
        assert_eq!(Indexes::default().missing(2, 7), [0, 1]);
    }
}
