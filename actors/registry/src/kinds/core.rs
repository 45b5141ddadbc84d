//! Core group.

mod ephemeral_containers;
pub mod event;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod service;
