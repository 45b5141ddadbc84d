//! What functions can use during an evaluation: variables, the authorizer, the budget, compiled patterns.

use crate::budget::Budget;
use crate::error::EvalError;
use crate::pattern::Patterns;
use crate::value::{Authorizer, Value, equal_counted};

/// The source of the values of variables.
pub trait Activation<'a> {
    /// Returns the value of a declared variable. Called on each read of the variable; an activation should cache values that are costly to
    /// compute.
    ///
    /// # Errors
    /// The reason why the variable has no value; the expression fails with the same error.
    fn variable(&self, name: &str, budget: &mut Budget) -> Result<Value<'a>, EvalError>;

    /// Returns the authorizer that answers the questions of `authorizer`.
    fn authorizer(&self) -> Option<&dyn Authorizer> {
        None
    }
}

/// The part of an evaluation that functions can use.
pub(crate) struct Context<'c, 'a> {
    pub(crate) activation: &'c dyn Activation<'a>,
    pub(crate) budget: &'c mut Budget,
    pub(crate) patterns: &'c Patterns,
}

impl<'a> Context<'_, 'a> {
    /// Charges for visiting this many items.
    pub(crate) fn charge(&mut self, items: usize) -> Result<(), EvalError> {
        self.budget.spend(u64::try_from(items).unwrap_or(u64::MAX))
    }

    /// Charges for this many characters or bytes, at one unit per ten.
    pub(crate) fn charge_text(&mut self, len: usize) -> Result<(), EvalError> {
        self.charge(len.div_ceil(10))
    }

    /// Whether two values are equal; charges for the visited parts.
    pub(crate) fn equal(&mut self, a: &Value<'a>, b: &Value<'a>) -> Result<bool, EvalError> {
        let mut looked_at = 0;
        let equal = equal_counted(a, b, &mut looked_at);
        self.charge(looked_at / 10)?;
        Ok(equal)
    }
}
