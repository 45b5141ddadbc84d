//! Tests of the pod rules, mostly tables of cases.

#![cfg(test)]

mod budgets;
mod classes;
mod common;
mod daemons;
mod life;
mod nodes;
mod requests;
mod tolerations;
