//! The tests of this crate, one executable.

mod contracts;
mod secrets;
mod wire;
