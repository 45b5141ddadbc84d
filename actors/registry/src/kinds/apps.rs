//! The apps group.

pub mod daemon_set;
pub mod deployment;
