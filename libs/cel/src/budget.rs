//! The cost budget of evaluations. The unit is cel-go's: about one step of the interpreter, or ten visited characters.

use oarlock_seeded_bug::seeded_bug;

use crate::error::EvalError;
use crate::limits;

/// The remaining cost of several expressions together, and that of the running expression.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    expression: u64,
    limit: u64,
}

impl Budget {
    /// Makes a budget for several expressions, each of which is limited to [`limits::EXPRESSION_COST`].
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self::limited(total, limits::EXPRESSION_COST)
    }

    /// Makes a budget with another limit for each expression.
    #[must_use]
    pub fn limited(total: u64, limit: u64) -> Self {
        Self { left: total, expression: limit, limit }
    }

    /// Returns the remaining cost of all expressions together.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Charges for work before the work is done.
    ///
    /// # Errors
    /// [`EvalError::TooExpensive`], [`EvalError::OutOfBudget`]; every later charge fails too.
    pub fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        let cost = if seeded_bug!("cel_without_limit") { 0 } else { cost };
        let (Some(left), expression) = (self.left.checked_sub(cost), self.expression.checked_sub(cost)) else {
            self.left = 0;
            return Err(EvalError::OutOfBudget);
        };
        self.left = left;
        let Some(expression) = expression else {
            self.expression = 0;
            return Err(EvalError::TooExpensive);
        };
        self.expression = expression;
        Ok(())
    }

    /// Runs one expression with a limit of its own. Expressions nest when the first read of a variable computes the variable; the cost of the inner expression does
    /// not count against the limit of the outer one.
    pub(crate) fn expression<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.expression, self.limit);
        let result = run(self);
        self.expression = around;
        result
    }
}
