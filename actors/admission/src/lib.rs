//! Admission stages, one file each, in upstream's order.
//!
//! A stage runs on the request's own task, behind a panic guard and a deadline; a stage that panics answers 500 and counts as its failure
//! policy. Its row in [`table`] names it and gives its place in the order.

pub mod attributes;
pub mod cache;
pub mod chain;
pub mod context;
pub mod plugins;
pub mod policy;
pub mod stage;
pub mod table;
pub mod turns;

pub use attributes::{Attributes, Operation, Rights, Subject};
pub use chain::Chain;
pub use context::RequestContext;
pub use stage::AdmissionStage;
