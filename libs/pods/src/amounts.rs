//! Amounts of resources by name (upstream `ResourceList`), with the arithmetic that limits and quotas need.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::CompactString;
use oarlock_meta::Quantity;
use oarlock_schema::views::Map;

use crate::requests::Accounting;
use crate::resource_list::ResourceList;

/// Amounts by resource name, in order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<CompactString, Quantity>);

impl Amounts {
    /// The amounts of a field. Validation has seen the texts; one that is no quantity counts as nothing.
    #[must_use]
    pub fn of(map: Map<'_, &str>) -> Self {
        Quantities.read(map.iter())
    }

    /// The amount of one resource; `None` when nothing is said about it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: impl Into<CompactString>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Names and amounts, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    /// Names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(CompactString::as_str)
    }

    /// Whether nothing is said about any resource.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What of these is above `other`: differences, none below zero.
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

    /// Only the resources for which `keep` holds.
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

/// Sums in exact quantities, by name.
#[derive(Clone, Copy, Debug)]
pub struct Quantities;

impl Accounting for Quantities {
    type List = Amounts;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Amounts {
        Amounts(amounts.filter_map(|(name, text)| Some((name.into(), Quantity::parse(text).ok()?))).collect())
    }
}

/// As quota texts list amounts: `cpu=1,pods=2`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={amount}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
