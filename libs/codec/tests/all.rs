//! The encodings against recorded samples and damaged input, and their speed.

#![cfg(test)]

mod decode_errors;
mod mutations;
mod samples;
mod speed;
mod tables;
