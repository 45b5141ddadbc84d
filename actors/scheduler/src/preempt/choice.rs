//! Chooses the best node among the candidates of a preemption.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::column::NodeIx;
use crate::model::PodInfo;

/// A candidate of a preemption: a node and the pods to evict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The node.
    pub(crate) node: NodeIx,
    /// The pods to evict, the most important first; never empty.
    pub(crate) victims: Vec<Arc<PodInfo>>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    pub(crate) violations: usize,
}

impl Candidate {
    /// Returns the candidate's cost, most significant part first (upstream: `pickOneNodeForPreemption`): violated budgets; the highest priority; the sum of
    /// the priorities, each raised above 0 so that many low ones are not cheaper than few; their number; and how long the first of the highest has run.
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<i64>) {
        const RAISE: i64 = 1 << 31;
        let highest = self.victims.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN);
        let sum = self.victims.iter().map(|victim| i64::from(victim.priority) + RAISE).sum();
        let first = self.victims.iter().filter(|victim| victim.priority == highest).map(|victim| victim.started).min();
        (self.violations, highest, sum, self.victims.len(), Reverse(first.unwrap_or(i64::MIN)))
    }
}

/// Returns the cheapest candidate; among equals the first.
pub(crate) fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(Candidate::cost)
}
