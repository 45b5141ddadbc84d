//! Admission stages (upstream: admission plugins), one file each, in upstream's order.
//!
//! A stage runs on the request's own task, behind a panic guard and a deadline; a panic answers 500 and counts according to the failure policy. A
//! stage's row in [`table`] gives its name and its place in the order.

pub mod attributes;
pub mod cache;
pub mod chain;
pub mod context;
pub mod plugins;
pub mod policy;
pub mod stage;
pub mod table;
pub mod turns;

pub use attributes::{Attributes, Operation, Subject, UserPermissions};
pub use chain::Chain;
pub use context::RequestContext;
pub use stage::{AdmissionStage, Half};
