//! The table of plugins: one row each, in upstream's order (`apis/config/v1/default_plugins.go`).
//!
//! Filters run in this order, which decides the reason that is reported for a node. `cargo xtask new plugin` writes a new plugin's file with
//! its row; the plugin takes effect once it is listed here.

use crate::framework::{Plugin, SortKey};
use crate::model::PodInfo;
use crate::plugins::{
    default_binder, default_preemption, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_name, node_ports, node_resources_balanced_allocation, node_resources_fit, node_unschedulable,
    pod_topology_spread, priority_sort, scheduling_gates, taint_toleration, volume_binding,
};

/// Every plugin. A plugin's index is its bit in sets of plugins.
pub(crate) static PLUGINS: [&Plugin; 16] = [
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
];

/// Returns the plugins of a set of indexes.
pub(crate) fn members(set: u32) -> impl Iterator<Item = &'static Plugin> {
    PLUGINS.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0).map(|(_, plugin)| *plugin)
}

/// Returns a pod's sort key in the active queue, from the first plugin with a QueueSort function.
pub(crate) fn sort_key(pod: &PodInfo, queued: u64) -> SortKey {
    let sorter = PLUGINS.iter().find_map(|plugin| plugin.queue_sort);
    sorter.map_or_else(|| (std::cmp::Reverse(0), queued), |sort| sort(pod, queued))
}
