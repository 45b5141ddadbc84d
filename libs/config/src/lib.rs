//! What several services configure alike.
//!
//! - [`Kubeconfig`] is the file every Kubernetes client reads: written for the user and for every component, read by the
//!   components that run as processes of their own. [`Kubeconfig::resolve`] turns a context into an [`Endpoint`]: where the
//!   server is, whom to trust, who one is.
//! - [`ApiOptions`] are the flags of everybody who speaks to the API, [`NatsOptions`] those of everybody who joins the bus,
//!   [`SecureServingOptions`] those of everybody who serves health and metrics.
//! - [`DataDir`] is the one place that knows what lies where in `--data-dir`.

mod api;
mod clear;
mod data_dir;
mod duration;
mod error;
mod host;
mod kubeconfig;
mod nats;
mod secure_serving;

pub use api::ApiOptions;
pub use clear::in_the_clear;
pub use data_dir::DataDir;
pub use duration::duration;
pub use error::{Error, Result};
pub use host::host_name;
pub use kubeconfig::{
    AuthInfo, ClientKey, Cluster, Context, Credential, Endpoint, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
    ServerTrust,
};
pub use nats::{Nats, NatsOptions, ROLE_KEYS};
pub use secure_serving::SecureServingOptions;
