//! Resource amounts by name (upstream `ResourceList`), with the arithmetic that limits and quotas need.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::CompactString;
use oarlock_meta::Quantity;
use oarlock_schema::views::Map;

use crate::requests::Accounting;
use crate::resource_list::ResourceList;

/// Resource amounts by resource name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<CompactString, Quantity>);

impl Amounts {
    /// Reads the amounts of a field. Validation has checked the texts; an invalid quantity counts as zero.
    #[must_use]
    pub fn of(map: Map<'_, &str>) -> Self {
        Quantities.read(map.iter())
    }

    /// Returns the amount of one resource; `None` if the list has no entry for the resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: impl Into<CompactString>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Returns names and amounts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(CompactString::as_str)
    }

    /// Whether the list has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns by how much these amounts exceed `other`, zero where they do not.
    #[must_use]
    pub fn above(mut self, other: &Self) -> Self {
        for (name, amount) in &mut self.0 {
            if let Some(less) = other.0.get(name) {
                *amount -= less;
            }
        }
        self.0.retain(|_, amount| amount.signum() >= 0);
        self
    }

    /// Keeps only the resources for which `keep` returns true.
    #[must_use]
    pub fn only(mut self, mut keep: impl FnMut(&str, &Quantity) -> bool) -> Self {
        self.0.retain(|name, amount| keep(name, amount));
        self
    }
}

impl ResourceList for Amounts {
    fn add(&mut self, more: &Self) {
        self.0.add(&more.0);
    }

    fn add_where_some(&mut self, more: &Self) {
        self.0.add_where_some(&more.0);
    }

    fn raise(&mut self, least: &Self) {
        self.0.raise(&least.0);
    }

    fn replace(&mut self, with: Self) {
        self.0.replace(with.0);
    }
}

/// [`Accounting`] in exact quantities by resource name.
#[derive(Clone, Copy, Debug)]
pub struct Quantities;

impl Accounting for Quantities {
    type List = Amounts;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Amounts {
        Amounts(amounts.filter_map(|(name, text)| Some((name.into(), Quantity::parse(text).ok()?))).collect())
    }
}

/// Prints amounts as quota texts do: `cpu=1,pods=2`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={amount}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
