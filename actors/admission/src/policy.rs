//! Policies that say in expressions what is admitted.
//!
//! Deciding is pure: a [`Question`] holds all that is known of the request and names the policies that are to judge it, [`judge`] answers it with
//! an [`Answer`], and both are plain data that serialise, so that another process may be asked as well as this one. What is not in the question: the
//! policies themselves ([`Policies`]), which it names by uid and generation and which go with it to another process ([`Elsewhere`], [`serve()`]); and the
//! authorizer: what asks it is judged where it is.

mod compiled;
mod elsewhere;
mod evaluate;
mod known;
pub mod matching;
mod question;
mod scope;
mod serve;
mod wire;

pub use compiled::{Failure, Policy, PolicyId};
pub use elsewhere::Elsewhere;
pub use evaluate::{Policies, judge};
pub use known::Known;
pub use question::{Action, Answer, Asked, Denial, Input, Question, Request, User};
pub use serve::{ServeError, serve};
