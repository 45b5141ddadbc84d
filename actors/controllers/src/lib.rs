//! The loops of kube-controller-manager, one file each: plan purely, act thinly.
//!
//! Each controller is one [`Row`] of [`ROWS`]. [`start()`] gives each its own identity (the ServiceAccount that upstream's bootstrap roles are
//! bound to) and one set of shared informers, and spawns it in the shell of `oarlock_informer`. In a controller's folder `plan.rs` decides
//! over projections, without clocks or I/O; `act.rs` makes the writes; reconciles wait until the caches show them (`OwnWrites`).

mod accounts;
mod aggregation;
mod behind;
mod claim;
mod deployment;
mod endpoints;
mod endpointslice;
mod env;
mod garbage;
mod namespace;
mod node_lifecycle;
mod pod_garbage;
mod project;
mod replicaset;
mod root_ca;
mod serviceaccount;
mod start;
mod table;
mod taint_eviction;
mod write;

pub use start::{Error, Options, Started, start, units};
pub use table::{Placement, ROWS, Row};
