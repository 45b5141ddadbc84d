//! Evaluation of admission policies written as CEL expressions.
//!
//! The evaluation is pure: a [`Question`] has all inputs from the request and names the policies to evaluate, and [`judge`] returns an [`Answer`].
//! Both are plain data that can be serialised, so that another process may evaluate them. Two inputs are not in the question: the policies themselves
//! ([`Policies`]), which it names by uid and generation and which are sent along to another process ([`RemoteEvaluator`], [`serve()`]); and the authorizer:
//! policies that use it are evaluated in this process.

mod compiled;
mod compiled_policies;
mod evaluate;
pub mod matching;
mod question;
mod remote;
mod scope;
mod serve;
mod wire;

pub use compiled::{Failure, Policy, PolicyId};
pub use compiled_policies::CompiledPolicies;
pub use evaluate::{Policies, judge};
pub use question::{Action, Answer, BoundPolicy, Denial, Input, Question, Request, User};
pub use remote::RemoteEvaluator;
pub use serve::{ServeError, serve};
