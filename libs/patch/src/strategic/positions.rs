//! Positions of the items of a list, by value or by merge key. A list in a patch may be as long as the body, so items are looked up in a map instead of
//! searched for.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use oarlock_schema::Value;
use oarlock_seeded_bug::seeded_bug;

/// A [`Value`] with a total order that agrees with its equality.
#[derive(Clone, Copy)]
struct ByValue<'a>(&'a Value);

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) => 2,
        Value::Number(_) => 3,
        Value::Str(_) => 4,
        Value::List(_) => 5,
        Value::Struct(_) => 6,
        Value::Map(_) => 7,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) | (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let first = a.iter().zip(b.iter()).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Struct(a), Value::Struct(b)) => a.ty().name.cmp(b.ty().name).then_with(|| {
            let (a, b) = (a.entries(), b.entries());
            let both = a.iter().zip(b.iter());
            let first = both.map(|((x, a), (y, b))| x.cmp(y).then_with(|| compare(a, b))).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }),
        (Value::Map(a), Value::Map(b)) => {
            let both = a.iter().zip(b.iter());
            let first = both.map(|((x, a), (y, b))| x.cmp(y).then_with(|| compare(a, b))).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for ByValue<'_> {}
impl PartialOrd for ByValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ByValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

/// The first position of each value of a list, or of each value of the items' merge key.
pub(super) struct Positions<'a> {
    key: Option<&'a str>,
    first: BTreeMap<ByValue<'a>, usize>,
}

impl<'a> Positions<'a> {
    /// Indexes the positions in `items`; with `key` only the items that have the key.
    pub(super) fn of(items: &'a [Value], key: Option<&'a str>) -> Self {
        Self::among(items.iter().enumerate(), key)
    }

    /// Indexes some items with given positions.
    pub(super) fn among(items: impl IntoIterator<Item = (usize, &'a Value)>, key: Option<&'a str>) -> Self {
        let mut out = Self { key, first: BTreeMap::new() };
        for (at, item) in items {
            out.add(at, item);
        }
        out
    }

    /// Adds an item unless an equal one is present. Returns whether the item was added.
    pub(super) fn add(&mut self, at: usize, item: &'a Value) -> bool {
        let Some(name) = name(item, self.key) else { return false };
        match self.first.entry(ByValue(name)) {
            std::collections::btree_map::Entry::Occupied(_) => false,
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(at);
                true
            }
        }
    }

    /// Returns the first position of an equal item, or of one with an equal merge key.
    pub(super) fn find(&self, item: &Value) -> Option<usize> {
        let wanted = ByValue(name(item, self.key)?);
        if seeded_bug!("items_by_search") {
            return self.first.iter().filter(|(have, _)| **have == wanted).map(|(_, at)| *at).min();
        }
        self.first.get(&wanted).copied()
    }
}

fn name<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        None => Some(item),
        Some(key) => item.get(key),
    }
}
