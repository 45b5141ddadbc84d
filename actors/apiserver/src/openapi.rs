//! OpenAPI documents, derived from the schema facts. Only upstream's few documented defaults and unions are maintained by hand.
//!
//! [`schema`] describes types and [`paths`] the operations of each resource, both for either OpenAPI version. [`v3`] and [`v2`] build the documents
//! on first use and keep them compressed ([`stored`]).

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
