//! The scheduling group.

pub mod priority_class;
