//! The errors of expressions: at compile time and at run time.

use std::fmt;

use crate::source::{self, Position};

/// One finding about the text of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    /// The position; `None` for a finding about the text as a whole.
    pub at: Option<Position>,
    /// The message, in cel-go's words.
    pub message: String,
}

/// The findings that keep a text from compiling, in the order of the text. Prints as cel-go prints them, one `ERROR: <input>:1:2: …` with its line each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError {
    text: String,
    issues: Vec<Issue>,
}

/// The offset of a finding about the text as a whole.
pub(crate) const NOWHERE: usize = usize::MAX;

impl CompileError {
    pub(crate) fn new(text: &str, mut found: Vec<(usize, String)>) -> Self {
        found.sort_by_key(|(offset, _)| *offset);
        found.dedup();
        let issue =
            |(offset, message)| Issue { at: (offset != NOWHERE).then(|| source::position(text, offset)), message };
        Self { text: text.to_owned(), issues: found.into_iter().map(issue).collect() }
    }

    /// Returns the findings, in the order of the text; at least one.
    #[must_use]
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, issue) in self.issues.iter().enumerate() {
            let shown = match issue.at {
                Some(at) => source::show(&self.text, at, &issue.message),
                None => format!("ERROR: <input>:-1:0: {}", issue.message),
            };
            write!(f, "{}{shown}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// The error of an evaluation. The texts are cel-go's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    /// The expression fails on these values.
    #[error("{0}")]
    Failed(String),
    /// The expression exceeded the cost limit of one expression. Logical operators do not absorb this error.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
    /// The cost budget of all expressions together is used up. Logical operators do not absorb this error.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
}

impl EvalError {
    /// Makes a failure with this text.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::failed("no such overload")
    }

    pub(crate) fn no_key(key: impl fmt::Display) -> Self {
        Self::Failed(format!("no such key: {key}"))
    }

    /// Whether the error ends the whole evaluation, whatever operators surround the failed part.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}
