//! PodDisruptionBudgets, which preemption honours on a best-effort basis.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::intern::{Interner, Sym};
use crate::labels::Selector;
use crate::map::Map;
use crate::model::PodInfo;

/// The parts of a PodDisruptionBudget that preemption reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// `spec.selector`; an absent selector selects nothing, and for preemption neither does an empty one.
    pub(crate) selector: Selector,
    /// `status.disruptionsAllowed`.
    pub(crate) allowed: i64,
    /// Names of `status.disruptedPods`, whose disruptions are counted already.
    pub(crate) disrupted: Vec<Box<str>>,
}

impl Budget {
    fn covers(&self, pod: &PodInfo, names: &Interner) -> bool {
        !self.selector.is_empty()
            && self.selector.matches(&pod.spec.labels, names)
            && !self.disrupted.iter().any(|name| **name == *pod.name)
    }
}

/// Every budget, by namespace and name.
#[derive(Default)]
pub(crate) struct Budgets {
    all: Map<Sym, BTreeMap<Sym, Budget>>,
}

impl Budgets {
    /// Sets (or with `None` removes) a budget.
    pub(crate) fn set(&mut self, namespace: Sym, name: Sym, budget: Option<Budget>) {
        let here = self.all.entry(namespace).or_default();
        match budget {
            Some(budget) => drop(here.insert(name, budget)),
            None => drop(here.remove(&name)),
        }
        if here.is_empty() {
            self.all.remove(&namespace);
        }
    }

    /// Returns namespace and name of every budget.
    pub(crate) fn known(&self) -> Vec<(Sym, Sym)> {
        self.all.iter().flat_map(|(namespace, here)| here.keys().map(|name| (*namespace, *name))).collect()
    }

    /// Partitions pods, in order, into those whose eviction violates a budget and the others. Each earlier pod uses up one disruption of its
    /// budgets (upstream: `filterPodsWithPDBViolation`).
    pub(crate) fn part(&self, pods: Vec<Arc<PodInfo>>, names: &Interner) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
        let mut spent: Map<(Sym, Sym), i64> = Map::default();
        pods.into_iter().partition(|pod| {
            let here = self.all.get(&pod.spec.namespace).into_iter().flatten();
            let mut violated = false;
            for (name, budget) in here.filter(|(_, budget)| !pod.spec.labels.is_empty() && budget.covers(pod, names)) {
                let spent = spent.entry((pod.spec.namespace, *name)).or_default();
                *spent += 1;
                violated |= *spent > budget.allowed;
            }
            violated
        })
    }
}
