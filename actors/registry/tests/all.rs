//! Tests of the version conversions of stored objects, and of deletions.

#![cfg(test)]

mod conversion;
mod creation;
mod deletion;
mod ephemeral;
mod signing_requests;
