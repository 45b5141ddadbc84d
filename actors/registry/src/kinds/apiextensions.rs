//! The apiextensions group.

pub mod custom_resource_definition;
