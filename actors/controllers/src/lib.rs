//! The controllers of kube-controller-manager and cloud-controller-manager, one file or folder each, with pure planning apart from writes.
//!
//! Each controller is one [`Row`]. [`start()`] gives each its own identity (the ServiceAccount that upstream's bootstrap roles are
//! bound to) and one set of shared informers, and spawns it in the shell of `oarlock_informer`. In a controller's folder `plan.rs` decides
//! over projections, without clocks or I/O; `act.rs` makes the writes; reconciles wait until the caches show them (`OwnWrites`).
//!
//! Controllers are in folders by domain and import `harness`, never one another's row; only `start.rs` imports the list in `table.rs`.

mod apps;
mod batch;
mod certificates;
mod change_root;
mod cloud;
mod controller_ref;
mod core;
mod error;
mod harness;
mod nodes;
mod pod_control;
mod pod_create;
mod pod_names;
mod pod_template;
mod project;
mod selection;
mod service_account_client;
mod service_accounts;
mod start;
mod table;
mod write;

pub use crate::core::endpointslice::EndpointSliceSettings;
pub use crate::core::pod_garbage_collector::PodGarbageCollectorSettings;
pub use cloud::node::CloudNodeSettings;
pub use cloud::node_lifecycle::CloudNodeLifecycleSettings;
pub use error::Error;
pub use harness::{Clients, Concurrency, ConcurrencyFlags, Requirement, Row, Settings, Spread, Table, WorkerCounts};
pub use nodes::node_lifecycle::NodeLifecycleSettings;
pub use selection::Selection;
pub use service_account_client::identities;
pub use start::{
    CloudOptions, CloudTable, ManagerTable, Options, StartedControllers, asks_for_gate, cloud_rows, cloud_units, rows,
    start, start_cloud, units,
};
