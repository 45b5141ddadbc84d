//! Tests of the results and costs of expressions, and of the limits on hostile texts.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod authorizer;
mod common;
mod language;
mod limits;
mod objects;
mod random;
mod recorded;
