//! What a cloud does for a cluster.
//!
//! - [`Provider`]: load balancers of Services and machines of nodes, in the messages of `proto/oarlock/cloud`.
//! - [`External`]: a provider in a program of its own, called over gRPC.
//!
//! Every call is made within a time, after which nothing of it may take effect any more. Who may call, and when, is not decided here.

mod external;
mod provider;

pub use external::{BadEndpoint, External, Options};
pub use oarlock_contracts::oarlock::cloud::v1 as wire;
pub use provider::{Error, Provider};
