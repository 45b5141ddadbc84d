//! An overload of a function or operator: its signature, its cost and its implementation.

use crate::context::Context;
use crate::error::EvalError;
use crate::signature::Signature;
use crate::value::Value;

/// The implementation of a function, for arguments that match its signature.
pub(crate) type Run = for<'c, 'a> fn(&mut Context<'c, 'a>, &[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// The cost of a call, charged before the call runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// A constant cost.
    One,
    /// Proportional to the characters or items of the arguments.
    Scan,
    /// Proportional to the product of the sizes of the first two arguments: the second is visited repeatedly while the first is traversed.
    Product,
    /// The cost of a call of the authorizer (350,000, set by Kubernetes).
    Ask,
}

/// A function or operator for arguments of one signature.
pub(crate) struct Overload {
    pub(crate) signature: Signature,
    pub(crate) cost: Cost,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.signature.fmt(f)
    }
}
