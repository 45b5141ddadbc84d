//! What expressions are worth, what they cost, and what no text can do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod authorizer;
mod common;
mod language;
mod limits;
mod objects;
mod random;
mod recorded;
