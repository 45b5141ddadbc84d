//! The table of plugins: one row each, in upstream's order (`apis/config/v1/default_plugins.go`).
//!
//! Filters run in this order, which decides the reason that is reported for a node. `cargo xtask new plugin` writes a new plugin's file with
//! its row; the plugin takes effect once it is listed here.

use crate::plugin::Plugins;
use crate::plugins::{
    default_binder, default_preemption, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_name, node_ports, node_resources_balanced_allocation, node_resources_fit, node_unschedulable,
    pod_topology_spread, priority_sort, scheduling_gates, taint_toleration, volume_binding,
};

/// Every plugin.
pub(crate) static PLUGINS: Plugins = Plugins::new(&[
    &scheduling_gates::ROW,
    &priority_sort::ROW,
    &node_unschedulable::ROW,
    &node_name::ROW,
    &taint_toleration::ROW,
    &node_affinity::ROW,
    &node_ports::ROW,
    &node_resources_fit::ROW,
    &volume_binding::ROW,
    &pod_topology_spread::ROW,
    &inter_pod_affinity::ROW,
    &dynamic_resources::ROW,
    &default_preemption::ROW,
    &node_resources_balanced_allocation::ROW,
    &image_locality::ROW,
    &default_binder::ROW,
]);
