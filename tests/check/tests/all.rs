//! Tests of the checker with bad histories, with good ones that look bad, and with generated ones.
#![cfg(test)]

mod bad;
mod build;
mod generate;
mod mutate;
mod placement;
mod program;
mod properties;
mod traces;
mod workloads;
