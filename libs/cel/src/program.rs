//! Compiled expressions.

use crate::budget::Budget;
use crate::checker;
use crate::context::{Activation, Context};
use crate::env::Env;
use crate::error::{CompileError, EvalError};
use crate::interpreter::Interpreter;
use crate::parser;
use crate::pattern::Patterns;
use crate::plan::Node;
use crate::types::Type;
use crate::value::Value;

/// An expression that has been parsed and checked, ready to run any number of times.
#[derive(Debug)]
pub struct Program {
    node: Node,
    ty: Type,
    patterns: Patterns,
}

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// All errors in the text, in cel-go's words.
    pub fn compile(text: &str, env: &Env) -> Result<Self, CompileError> {
        let expr = parser::parse(text, env.bindings())?;
        let checked = checker::check(text, expr, env)?;
        Ok(Self { node: checked.node, ty: checked.ty, patterns: Patterns::new(checked.patterns) })
    }

    /// Returns the type of the result; dyn if only the evaluation determines the type.
    #[must_use]
    pub fn result(&self) -> &Type {
        &self.ty
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// When the expression fails on these values, or costs more than the budget allows.
    pub fn eval<'a>(&self, activation: &dyn Activation<'a>, budget: &mut Budget) -> Result<Value<'a>, EvalError> {
        budget.expression(|budget| {
            let context = Context { activation, budget, patterns: &self.patterns };
            Interpreter { context, locals: Vec::new() }.eval(&self.node)
        })
    }
}
