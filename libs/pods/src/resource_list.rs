//! Traits of lists of resource amounts (upstream `v1.ResourceList`) with the arithmetic for sums over containers.

use std::collections::BTreeMap;

use oarlock_meta::Quantity;

/// An amount of one resource. Amounts of pods are never negative, which validation ensures.
pub trait Amount: Clone + Ord + Default {
    /// Adds another amount.
    fn add(&mut self, more: &Self);
}

impl Amount for Quantity {
    fn add(&mut self, more: &Self) {
        *self += more;
    }
}

/// Whole units. A sum beyond the range becomes the largest `i64`, which no node offers.
impl Amount for i64 {
    fn add(&mut self, more: &Self) {
        *self = self.saturating_add(*more);
    }
}

/// Amounts by resource. An absent resource differs from a resource with the amount zero.
pub trait ResourceList: Default {
    /// Adds amounts, including those of resources that are not yet in the list.
    fn add(&mut self, more: &Self);
    /// Adds only to amounts above zero.
    fn add_where_some(&mut self, more: &Self);
    /// Raises each amount to at least that of `least`.
    fn raise(&mut self, least: &Self);
    /// Replaces the amounts of the resources in `with`.
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
