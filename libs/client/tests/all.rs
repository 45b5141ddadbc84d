//! Tests of the client against misbehaving servers, and against a live one.

#![cfg(test)]

mod https;
mod live;
