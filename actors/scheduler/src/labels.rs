//! Labels and label selectors over interned strings.

use crate::intern::{Interner, Sym};

/// A set of labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Labels(Box<[(Sym, Sym)]>);

impl Labels {
    /// Builds a set from pairs in any order; of a duplicate key the last pair wins.
    pub(crate) fn new(mut pairs: Vec<(Sym, Sym)>) -> Self {
        pairs.reverse();
        pairs.sort_by_key(|pair| pair.0);
        pairs.dedup_by_key(|pair| pair.0);
        Self(pairs.into())
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: Sym) -> Option<Sym> {
        let at = self.0.binary_search_by_key(&key, |pair| pair.0).ok()?;
        self.0.get(at).map(|pair| pair.1)
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all pairs in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sym, Sym)> + '_ {
        self.0.iter().copied()
    }
}

/// The operator of a requirement, with its values.
pub(crate) type Op = oarlock_pods::node_affinity::Op<Box<[Sym]>>;

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requirement {
    /// The label key.
    pub(crate) key: Sym,
    /// The operator, with the values.
    pub(crate) op: Op,
}

impl Requirement {
    /// Returns the requirement of one exact value.
    pub(crate) fn equals(key: Sym, value: Sym) -> Self {
        Self { key, op: Op::In(Box::new([value])) }
    }

    /// Whether a value (or its absence) meets the requirement.
    pub(crate) fn accepts(&self, value: Option<Sym>, names: &Interner) -> bool {
        self.op.accepts(value, |values, value| values.contains(&value), |value| names.number(value))
    }
}

/// A label selector; `Nothing` is upstream's nil selector, and an empty list of requirements matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Selector {
    /// Matches no labels.
    Nothing,
    /// Matches labels that meet all requirements.
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
