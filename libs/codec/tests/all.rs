//! The encodings against recorded samples and damaged input, and how long they take.

#![cfg(test)]

mod decode_errors;
mod mutations;
mod samples;
mod speed;
mod tables;
