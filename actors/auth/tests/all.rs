//! Who is believed and who may do what: recorded answers, and hostile input.

#![cfg(test)]

mod hostile_input;
mod reviews;
