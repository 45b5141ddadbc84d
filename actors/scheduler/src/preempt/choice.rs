//! The choice among nodes that could be made to fit.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::column::NodeIx;
use crate::model::PodInfo;

/// A node, and who would have to leave it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The node.
    pub(crate) node: NodeIx,
    /// Who would have to leave, the most important first; never empty.
    pub(crate) victims: Vec<Arc<PodInfo>>,
    /// How many of them a PodDisruptionBudget does not let go.
    pub(crate) violations: usize,
}

impl Candidate {
    /// What it would cost, in the order in which it counts (upstream: `pickOneNodeForPreemption`): violated budgets; the highest priority; the sum of
    /// the priorities, each raised above 0 so that many low ones are not cheaper than few; their number; and how long the first of the highest has run.
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<i64>) {
        const RAISE: i64 = 1 << 31;
        let highest = self.victims.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN);
        let sum = self.victims.iter().map(|victim| i64::from(victim.priority) + RAISE).sum();
        let first = self.victims.iter().filter(|victim| victim.priority == highest).map(|victim| victim.started).min();
        (self.violations, highest, sum, self.victims.len(), Reverse(first.unwrap_or(i64::MIN)))
    }
}

/// The cheapest candidate; of several the first.
pub(crate) fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(Candidate::cost)
}
