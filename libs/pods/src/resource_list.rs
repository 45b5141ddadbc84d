//! Lists of amounts by resource (upstream `v1.ResourceList`) with the arithmetic that sums over containers need.

use std::collections::BTreeMap;

use oarlock_meta::Quantity;

/// An amount of one resource. Amounts of pods are never negative: validation refuses those.
pub trait Amount: Clone + Ord + Default {
    /// Adds another amount.
    fn add(&mut self, more: &Self);
}

impl Amount for Quantity {
    fn add(&mut self, more: &Self) {
        *self += more;
    }
}

/// Whole units. A sum that does not fit is the largest amount there is, which no node has.
impl Amount for i64 {
    fn add(&mut self, more: &Self) {
        *self = self.saturating_add(*more);
    }
}

/// Amounts by resource. A resource that is not listed is another thing than one listed with zero.
pub trait ResourceList: Default {
    /// Adds amounts, also of resources that are not listed yet.
    fn add(&mut self, more: &Self);
    /// Adds to the amounts above zero, and to no others.
    fn add_where_some(&mut self, more: &Self);
    /// Raises each amount to the larger of both.
    fn raise(&mut self, least: &Self);
    /// Takes amounts over in place of those listed.
    fn replace(&mut self, with: Self);
}

impl<K: Ord + Clone, A: Amount> ResourceList for BTreeMap<K, A> {
    fn add(&mut self, more: &Self) {
        for (resource, amount) in more {
            match self.get_mut(resource) {
                Some(sum) => sum.add(amount),
                None => drop(self.insert(resource.clone(), amount.clone())),
            }
        }
    }

    fn add_where_some(&mut self, more: &Self) {
        let none = A::default();
        for (resource, amount) in self.iter_mut().filter(|(_, amount)| **amount > none) {
            if let Some(more) = more.get(resource) {
                amount.add(more);
            }
        }
    }

    fn raise(&mut self, least: &Self) {
        for (resource, amount) in least {
            match self.get_mut(resource) {
                Some(have) if *have >= *amount => {}
                Some(have) => have.clone_from(amount),
                None => drop(self.insert(resource.clone(), amount.clone())),
            }
        }
    }

    fn replace(&mut self, with: Self) {
        self.extend(with);
    }
}
