//! Tests of the admission stages, their cost, and policies evaluated in this and in other processes.

#![cfg(test)]

mod certificates;
mod chain;
mod common;
mod cost;
mod node_pods;
mod node_tokens;
mod policies;
mod quota;
mod recorded;
mod remote;
