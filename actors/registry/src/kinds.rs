//! Strategies of the kinds that decide something for themselves, one file each.

pub mod apps;
pub mod autoscaling;
pub mod batch;
pub mod core;
