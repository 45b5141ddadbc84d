//! The tests of this crate, one executable.

#![cfg(test)]

mod contracts;
mod secrets;
mod wire;
