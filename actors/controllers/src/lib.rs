//! The loops of kube-controller-manager and of cloud-controller-manager, one file each: plan purely, act thinly.
//!
//! Each controller is one [`Row`] of [`ROWS`], or of [`CLOUD_ROWS`] if it reaches a cloud. [`start()`] gives each its own identity (the ServiceAccount that upstream's bootstrap roles are
//! bound to) and one set of shared informers, and spawns it in the shell of `oarlock_informer`. In a controller's folder `plan.rs` decides
//! over projections, without clocks or I/O; `act.rs` makes the writes; reconciles wait until the caches show them (`OwnWrites`).

mod account;
mod accounts;
mod aggregation;
mod behind;
mod claim;
mod cloud;
mod cloud_node;
mod cloud_node_lifecycle;
mod deployment;
mod endpoints;
mod endpointslice;
mod env;
mod garbage;
mod job;
mod namespace;
mod node_lifecycle;
mod pod_garbage;
mod project;
mod replicaset;
mod root_ca;
mod service_lb;
mod serviceaccount;
mod start;
mod table;
mod taint_eviction;
mod template;
mod ttl;
mod ttl_after_finished;
mod write;

pub use account::identities;
pub use start::{Clients, CloudOptions, Error, Options, Started, cloud_units, start, start_cloud, units};
pub use table::{CLOUD_ROWS, Placement, ROWS, Row};
