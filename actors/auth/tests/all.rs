//! Tests of authentication and authorization: recorded answers, and hostile input.

#![cfg(test)]

mod hostile_input;
mod reviews;
