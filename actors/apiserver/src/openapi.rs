//! OpenAPI documents, derived from the schema facts: nothing is kept by hand but upstream's few documented defaults and unions.
//!
//! [`schema`] describes types, [`paths`] what can be asked of each resource, both in the dialect of either version; [`v3`] and [`v2`] put
//! documents together on first use. What is kept of a document is its compressed form ([`stored`]).

mod dialect;
mod gnostic;
mod operations;
mod paths;
mod schema;
mod stored;
pub(crate) mod v2;
pub(crate) mod v3;

#[cfg(test)]
mod tests;
