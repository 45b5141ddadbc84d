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
pub(crate) type Op = oarlock_pods::node_affinity::Op<Box<[Sym]>>;

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
        self.op.accepts(value, |values, value| values.contains(&value), |value| names.number(value))
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
