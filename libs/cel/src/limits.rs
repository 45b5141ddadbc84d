//! Limits of the size of an expression, its values and its cost.

/// The most characters of an expression (cel-go's default).
pub const EXPRESSION_CHARS: usize = 100_000;

/// The deepest nesting of an expression (cel-go's default). Parser, checker and interpreter recurse no deeper.
pub const EXPRESSION_DEPTH: usize = 250;

/// Runs one level of a recursion. The limits above bound the number of levels; if the caller's stack has no room for them, they continue on heap memory
/// that is freed at the end.
pub(crate) fn level<T>(work: impl FnOnce() -> T) -> T {
    const RED_ZONE: usize = 128 << 10;
    const SEGMENT: usize = 1 << 20;
    stacker::maybe_grow(RED_ZONE, SEGMENT, work)
}

/// The deepest nesting of a value that expressions build. One expression cannot reach the limit; variables that build upon one another could.
pub const VALUE_DEPTH: usize = 1_000;

/// The highest cost of one expression (Kubernetes' `PerCallLimit`).
pub const EXPRESSION_COST: u64 = 1_000_000;

/// The highest cost of all expressions of one policy and binding (Kubernetes' `RuntimeCELCostBudget`).
pub const POLICY_COST: u64 = 10_000_000;

/// The highest cost of one policy's match conditions (Kubernetes' `RuntimeCELCostBudgetMatchConditions`).
pub const MATCH_CONDITIONS_COST: u64 = 2_500_000;
