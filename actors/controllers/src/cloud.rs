//! Controllers that call a cloud, and the interface through which they call its provider.

pub(crate) mod node;
pub(crate) mod node_lifecycle;
pub(crate) mod provider;
pub(crate) mod service_lb;
