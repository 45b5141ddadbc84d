//! A general linearizability checker: Wing and Gong's search with Lowe's memory of configurations seen.
//!
//! The search is exponential at worst and ignores revisions: an independent check of small histories.

use std::collections::HashSet;
use std::hash::Hash;

/// The most operations of a key that the search accepts.
pub const MAX_OPERATIONS: usize = 128;

/// One operation and its interval.
#[derive(Clone, Debug)]
pub struct Timed<O> {
    /// The time at which the operation began.
    pub invoke: u64,
    /// The time at which the operation ended; `None` if the outcome is unknown: the operation may have taken effect at any later time, or not at all.
    pub returned: Option<u64>,
    /// The operation and its result.
    pub op: O,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A linear order exists.
    Linear,
    /// No linear order exists.
    NotLinear,
    /// The search ended without a result: too many operations or configurations.
    GaveUp,
}

/// Searches an order of the operations that agrees with real time and in which `apply` accepts each operation (`None`: the state does not allow the
/// operation). Visits at most `budget` configurations.
pub fn search<S: Clone + Eq + Hash, O>(
    start: S,
    ops: &[Timed<O>],
    apply: impl Fn(&S, &O) -> Option<S>,
    budget: usize,
) -> Verdict {
    if ops.len() > MAX_OPERATIONS {
        return Verdict::GaveUp;
    }
    let bit = |index: usize| 1_u128 << index;
    let ended =
        ops.iter().enumerate().filter(|(_, op)| op.returned.is_some()).fold(0, |all, (index, _)| all | bit(index));
    let mut seen = HashSet::from([(0, start.clone())]);
    let mut waiting = vec![(0_u128, start)];
    while let Some((done, state)) = waiting.pop() {
        if done & ended == ended {
            return Verdict::Linear;
        }
        let open = || ops.iter().enumerate().filter(|(index, _)| done & bit(*index) == 0);
        // An operation that began after the end of another one comes after it.
        let horizon = open().filter_map(|(_, op)| op.returned).min().unwrap_or(u64::MAX);
        for (index, op) in open().filter(|(_, op)| op.invoke <= horizon) {
            let Some(next) = apply(&state, &op.op) else { continue };
            let next = (done | bit(index), next);
            if seen.len() >= budget {
                return Verdict::GaveUp;
            }
            if seen.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    Verdict::NotLinear
}

#[cfg(test)]
mod tests {
    use super::{Timed, Verdict, search};

    /// An operation of a register: the written or the read value.
    #[derive(Clone, Copy)]
    enum Op {
        Write(u8),
        Read(u8),
    }
    use Op::{Read, Write};

    fn verdict(ops: &[(u64, u64, Op)]) -> Verdict {
        let returned = |end| (end < u64::MAX).then_some(end);
        let ops: Vec<_> =
            ops.iter().map(|(invoke, end, op)| Timed { invoke: *invoke, returned: returned(*end), op: *op }).collect();
        let apply = |state: &u8, op: &Op| match op {
            Write(value) => Some(*value),
            Read(value) => (value == state).then_some(*state),
        };
        search(0, &ops, apply, 10_000)
    }

    #[test]
    fn reads_see_what_was_written_before_them() {
        assert_eq!(verdict(&[(0, 1, Write(1)), (2, 3, Read(1))]), Verdict::Linear);
        assert_eq!(verdict(&[(0, 1, Write(1)), (2, 3, Read(0))]), Verdict::NotLinear);
        assert_eq!(verdict(&[(0, 2, Write(1)), (2, 3, Read(0))]), Verdict::Linear, "they overlap");
    }

    #[test]
    fn two_reads_do_not_go_back() {
        let write = (0, 9, Write(1));
        assert_eq!(verdict(&[write, (1, 2, Read(0)), (3, 4, Read(1))]), Verdict::Linear);
        assert_eq!(verdict(&[write, (1, 2, Read(1)), (3, 4, Read(0))]), Verdict::NotLinear);
    }

    #[test]
    fn what_never_returned_may_happen_late_or_not_at_all() {
        let lost = (0, u64::MAX, Write(1));
        assert_eq!(verdict(&[lost, (1, 2, Read(0)), (3, 4, Read(1))]), Verdict::Linear);
        assert_eq!(verdict(&[lost, (1, 2, Read(0)), (3, 4, Read(0))]), Verdict::Linear);
        assert_eq!(verdict(&[lost, (1, 2, Read(1)), (3, 4, Read(0))]), Verdict::NotLinear);
    }

    #[test]
    fn gives_up_instead_of_guessing() {
        let many: Vec<_> = (0..129).map(|n| (n, n, Read(0))).collect();
        assert_eq!(verdict(&many), Verdict::GaveUp);
        let wide: Vec<_> = (0..100).map(|n| (0, 1000, Write(n))).chain([(0, 1000, Read(200))]).collect();
        assert_eq!(verdict(&wide), Verdict::GaveUp);
    }
}
