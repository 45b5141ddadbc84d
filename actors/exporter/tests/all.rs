//! All tests of the crate from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; the lint spares test functions only")]

mod export;
mod settings;
