//! The checker before histories known to be bad, histories that look bad and are not, and drawn ones.
#![cfg(test)]

mod bad;
mod build;
mod generate;
mod mutate;
mod placement;
mod program;
mod properties;
mod workloads;
