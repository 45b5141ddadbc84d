//! Controllers that reach a cloud, and the cloud provider as they call it.

pub(crate) mod node;
pub(crate) mod node_lifecycle;
pub(crate) mod provider;
pub(crate) mod service_lb;
