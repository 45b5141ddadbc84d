//! Cloud providers: the interface to load balancers and machines of a cloud.
//!
//! - [`Provider`]: load balancers of Services and machines of nodes, with the messages of `proto/oarlock/cloud`.
//! - [`External`]: a provider in another process, called over gRPC.
//!
//! Every call has a deadline, after which the provider must not continue it. Callers decide who may call and when.

mod external;
mod provider;

pub use external::{BadEndpoint, External, Options};
pub use oarlock_contracts::oarlock::cloud::v1 as wire;
pub use provider::{Error, Provider};
