//! The strategies of the kinds that override a default, one file each.

pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod core;
pub mod discovery;
pub mod scheduling;
