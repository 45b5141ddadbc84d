//! Tests: integration.
