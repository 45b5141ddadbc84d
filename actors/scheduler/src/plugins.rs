//! The plugins, one file each.

mod claimed;
pub(crate) mod default_binder;
pub(crate) mod default_preemption;
pub(crate) mod dynamic_resources;
pub(crate) mod image_locality;
pub(crate) mod inter_pod_affinity;
pub(crate) mod node_affinity;
pub(crate) mod node_name;
pub(crate) mod node_ports;
pub(crate) mod node_resources_balanced_allocation;
pub(crate) mod node_resources_fit;
pub(crate) mod node_unschedulable;
pub(crate) mod pod_topology_spread;
pub(crate) mod priority_sort;
pub(crate) mod scheduling_gates;
pub(crate) mod taint_toleration;
pub(crate) mod volume_binding;

mod arithmetic;
