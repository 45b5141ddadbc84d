//! Configuration shared by several services: kubeconfig files, common flags, the data directory.
//!
//! - [`Kubeconfig`] is the file that every Kubernetes client reads; written for the user and for every component, read by components in processes of their own.
//!   [`Kubeconfig::resolve`] turns a context into an [`Endpoint`]: server address, trust, credential.
//! - [`ApiOptions`] holds the flags of API clients, [`NatsOptions`] those of bus members, [`SecureServingOptions`] those of services that serve health and metrics, [`TracingOptions`] those of traces,
//!   [`EgressOptions`] those of connections to others.
//! - [`DataDir`] defines all paths inside `--data-dir`.

mod api;
mod clear;
mod data_dir;
mod duration;
mod egress;
mod error;
mod files;
mod host;
mod in_cluster;
mod kubeconfig;
mod nats;
mod secure_serving;
mod tracing;

pub use api::ApiOptions;
pub use clear::in_the_clear;
pub use data_dir::DataDir;
pub use duration::duration;
pub use egress::{EgressConnection, EgressName, EgressOptions, EgressProxy, EgressSelection, EgressTls};
pub use error::{Error, Result};
pub use host::host_name;
pub use kubeconfig::{
    AuthInfo, ClientKey, Cluster, Context, Credential, Endpoint, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
    ServerTrust,
};
pub use nats::{Nats, NatsOptions, ROLE_KEYS};
pub use secure_serving::SecureServingOptions;
pub use tracing::{OtlpProtocol, Tracing, TracingExport, TracingOptions, TracingState};
