//! What evaluations may cost. The unit is cel-go's: about one step of the interpreter, or ten characters looked at.

use oarlock_seeded_bug::seeded_bug;

use crate::error::EvalError;
use crate::limits;

/// What several expressions together may still cost, and the one that is running.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    expression: u64,
    limit: u64,
}

impl Budget {
    /// A budget for several expressions, each of which is limited to [`limits::EXPRESSION_COST`].
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self::limited(total, limits::EXPRESSION_COST)
    }

    /// A budget with another limit for each expression.
    #[must_use]
    pub fn limited(total: u64, limit: u64) -> Self {
        Self { left: total, expression: limit, limit }
    }

    /// What is left for all.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Pays for work that is about to be done.
    ///
    /// # Errors
    /// [`EvalError::TooExpensive`], [`EvalError::OutOfBudget`]; from then on nothing can be paid.
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

    /// Runs one expression with a limit of its own. Expressions nest where a variable is computed when it is first read; it does not
    /// count against the reader's limit.
    pub(crate) fn expression<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.expression, self.limit);
        let result = run(self);
        self.expression = around;
        result
    }
}
