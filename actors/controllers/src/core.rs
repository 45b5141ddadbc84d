//! Controllers of the core API group, of RBAC, and controllers that treat the objects of all groups alike.

pub(crate) mod clusterrole_aggregation;
pub(crate) mod endpoints;
pub(crate) mod endpointslice;
pub(crate) mod garbage_collector;
pub(crate) mod namespace;
pub(crate) mod pod_garbage_collector;
pub(crate) mod service_pods;
pub(crate) mod serviceaccount;
