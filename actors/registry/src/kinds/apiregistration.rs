//! The apiregistration group.

pub mod api_service;
