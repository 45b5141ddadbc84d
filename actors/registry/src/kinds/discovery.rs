//! The discovery group.

pub mod endpoint_slice;
