//! How large an expression, its values and its cost may become.

/// Characters of an expression (cel-go's default).
pub const EXPRESSION_CHARS: usize = 100_000;

/// Nesting of an expression (cel-go's default). Parser, checker and interpreter recurse no deeper.
pub const EXPRESSION_DEPTH: usize = 250;

/// Runs one level of a recursion. The limits above bound how many there are; where the caller's stack has no room for them, they go on in memory
/// that is given back at the end.
pub(crate) fn level<T>(work: impl FnOnce() -> T) -> T {
    const RED_ZONE: usize = 128 << 10;
    const SEGMENT: usize = 1 << 20;
    stacker::maybe_grow(RED_ZONE, SEGMENT, work)
}

/// Nesting of a value that expressions build. One expression cannot come near; variables that build upon one another could.
pub const VALUE_DEPTH: usize = 1_000;

/// Cost of one expression (Kubernetes' `PerCallLimit`).
pub const EXPRESSION_COST: u64 = 1_000_000;

/// Cost of all expressions of one policy and binding (Kubernetes' `RuntimeCELCostBudget`).
pub const POLICY_COST: u64 = 10_000_000;

/// Cost of one policy's match conditions (Kubernetes' `RuntimeCELCostBudgetMatchConditions`).
pub const MATCH_CONDITIONS_COST: u64 = 2_500_000;
