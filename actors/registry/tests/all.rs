//! What a version says of a stored object, and what a deletion does.

#![cfg(test)]

mod conversion;
mod creation;
mod deletion;
mod ephemeral;
mod signing_requests;
