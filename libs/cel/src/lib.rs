//! The Common Expression Language (cel.dev) with the libraries and limits of Kubernetes 1.35.
//!
//! [`Program::compile`] parses, checks and plans an expression against the variables of an [`Env`]; [`Program::eval`] evaluates the expression with the values of
//! an [`Activation`] and stops when the cost exceeds the [`Budget`]. Values borrow from their objects ([`Value::object`]):
//! only the parts that an expression reads are converted.
//!
//! The crate never panics or recurses without bound: texts are limited in length and nesting, values in nesting, evaluations in cost ([`limits`]).
//! Functions are rows of tables (`src/functions`), one file per library. Two differences to cel-go are known (both answered the same cases, see
//! `tests/recorded.rs`): a timestamp does not keep the zone of its text, and maps have no keys that are doubles.

mod ast;
mod budget;
mod checker;
mod context;
mod env;
mod error;
mod functions;
mod interpreter;
mod lexer;
pub mod limits;
mod overload;
mod parser;
mod pattern;
mod plan;
mod program;
mod signature;
mod source;
mod types;
mod value;
mod words;

pub use budget::Budget;
pub use context::Activation;
pub use env::Env;
pub use error::{CompileError, EvalError, Issue};
pub use program::Program;
pub use source::Position;
pub use types::{ObjectType, Type};
pub use value::{
    AccessQuery, AccessRequest, Authorizer, Cidr, Decision, Key, List, Map, NamedFormat, Opaque, Semver, Text, Url,
    Value, compare, equal,
};
pub use words::is_identifier;
