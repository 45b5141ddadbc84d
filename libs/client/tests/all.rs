//! The client against servers that misbehave, and against a live one.

#![cfg(test)]

mod https;
mod live;
