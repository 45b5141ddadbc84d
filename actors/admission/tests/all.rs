//! What the stages admit, change and refuse, what they cost, and policies judged here and elsewhere.

#![cfg(test)]

mod certificates;
mod chain;
mod common;
mod cost;
mod elsewhere;
mod node_tokens;
mod policies;
mod quota;
mod recorded;
