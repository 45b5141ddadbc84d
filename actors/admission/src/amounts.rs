//! Amounts of resources by name (upstream `ResourceList`), with the arithmetic that limits and quotas need.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::CompactString;
use oarlock_meta::Quantity;
use oarlock_schema::views::Map;

/// Amounts by resource name, in order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<CompactString, Quantity>);

impl Amounts {
    /// The amounts of a field. Validation has seen the texts; one that is no quantity counts as nothing.
    #[must_use]
    pub fn of(map: Map<'_, &str>) -> Self {
        Self(map.iter().filter_map(|(name, text)| Some((name.into(), Quantity::parse(text).ok()?))).collect())
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

    /// Adds amounts to these.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(have) => *have += amount,
                None => self.set(name.clone(), amount.clone()),
            }
        }
    }

    /// The amounts in this list of the resources that `other` names.
    #[must_use]
    pub fn of_names(&self, other: &Self) -> Self {
        let named = other.0.keys().filter_map(|name| Some((name.clone(), self.0.get(name)?.clone())));
        Self(named.collect())
    }

    /// Raises these to the larger of both.
    pub fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if self.0.get(name).is_none_or(|have| amount > have) {
                self.set(name.clone(), amount.clone());
            }
        }
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

/// As quota texts list amounts: `cpu=1,pods=2`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={amount}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
