//! Tests of the rules of workloads.

#![cfg(test)]

mod history;
mod revisions;
mod upstream;
