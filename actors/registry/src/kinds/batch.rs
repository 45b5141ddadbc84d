//! The batch group.

pub mod job;
