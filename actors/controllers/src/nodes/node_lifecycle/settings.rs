//! Settings of node-lifecycle-controller.

use std::time::Duration;

/// Flags of node-lifecycle-controller; names are upstream's.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct NodeLifecycleSettings {
    /// How long a node may stay without a sign of life before it counts as not ready.
    #[arg(long, default_value = "50s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub node_monitor_grace_period: Duration,
    /// How long a new node may stay without its first sign of life before it counts as not ready.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub node_startup_grace_period: Duration,
    /// How many nodes of a zone may be emptied in a second; 0 lets none be emptied.
    #[arg(long, default_value_t = 0.1, value_name = "PER-SECOND")]
    pub node_eviction_rate: f32,
    /// How many nodes may be emptied in a second in an unhealthy zone with more than --large-cluster-size-threshold nodes; in a smaller unhealthy zone no node is
    /// emptied.
    #[arg(long, default_value_t = 0.01, value_name = "PER-SECOND")]
    pub secondary_node_eviction_rate: f32,
    /// Number of nodes up to which an unhealthy zone counts as small.
    #[arg(long, default_value_t = 50, value_name = "NODES")]
    pub large_cluster_size_threshold: i32,
    /// Fraction of a zone's nodes, and three nodes at least, that must be not ready for the zone to count as unhealthy.
    #[arg(long, default_value_t = 0.55, value_name = "FRACTION")]
    pub unhealthy_zone_threshold: f32,
}

impl Default for NodeLifecycleSettings {
    fn default() -> Self {
        Self {
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
        }
    }
}

impl NodeLifecycleSettings {
    /// Returns the time without a sign of life after which a node is not ready; `heard` is whether the node has ever given one.
    pub(super) fn grace(&self, heard: bool) -> Duration {
        if heard { self.node_monitor_grace_period } else { self.node_startup_grace_period }
    }
}
