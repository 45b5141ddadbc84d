//! Labels and selectors over symbols.

use crate::intern::{Interner, Sym};

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Labels(Box<[(Sym, Sym)]>);

impl Labels {
    /// Takes pairs in any order; of a doubled key the last pair wins.
    pub(crate) fn new(mut pairs: Vec<(Sym, Sym)>) -> Self {
        pairs.reverse();
        pairs.sort_by_key(|pair| pair.0);
        pairs.dedup_by_key(|pair| pair.0);
        Self(pairs.into())
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: Sym) -> Option<Sym> {
        let at = self.0.binary_search_by_key(&key, |pair| pair.0).ok()?;
        self.0.get(at).map(|pair| pair.1)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All pairs in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sym, Sym)> + '_ {
        self.0.iter().copied()
    }
}

/// What a requirement asks of the value of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// The key is there with one of these values.
    In(Box<[Sym]>),
    /// The key is absent, or has none of these values.
    NotIn(Box<[Sym]>),
    /// The key is there.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is a number above this one.
    Gt(i64),
    /// The value is a number below this one.
    Lt(i64),
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requirement {
    /// The label key.
    pub(crate) key: Sym,
    /// What its value must be.
    pub(crate) op: Op,
}

impl Requirement {
    /// Requires one exact value.
    pub(crate) fn equals(key: Sym, value: Sym) -> Self {
        Self { key, op: Op::In(Box::new([value])) }
    }

    /// Whether a value (or its absence) meets the requirement.
    pub(crate) fn accepts(&self, value: Option<Sym>, names: &Interner) -> bool {
        match (&self.op, value) {
            (Op::In(values), Some(value)) => values.contains(&value),
            (Op::NotIn(values), Some(value)) => !values.contains(&value),
            (Op::NotIn(_) | Op::DoesNotExist, None) | (Op::Exists, Some(_)) => true,
            (Op::Gt(bound), Some(value)) => names.number(value).is_some_and(|number| number > *bound),
            (Op::Lt(bound), Some(value)) => names.number(value).is_some_and(|number| number < *bound),
            (Op::In(_) | Op::Exists | Op::Gt(_) | Op::Lt(_), None) | (Op::DoesNotExist, Some(_)) => false,
        }
    }
}

/// A label selector: `Nothing` is upstream's nil selector, an empty list matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Selector {
    /// Matches nothing.
    Nothing,
    /// Matches what meets all requirements.
    All(Box<[Requirement]>),
}

impl Selector {
    /// The selector that matches everything.
    #[cfg(test)]
    pub(crate) fn everything() -> Self {
        Self::All(Box::new([]))
    }

    /// Whether the selector has no requirement at all (and so matches everything).
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// Whether the labels meet all requirements.
    pub(crate) fn matches(&self, labels: &Labels, names: &Interner) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => {
                requirements.iter().all(|requirement| requirement.accepts(labels.get(requirement.key), names))
            }
        }
    }
}
