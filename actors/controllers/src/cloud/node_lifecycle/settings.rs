//! Settings of cloud-node-lifecycle-controller.

use std::time::Duration;

/// Flags of cloud-node-lifecycle-controller; names are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct CloudNodeLifecycleSettings {
    /// How often the cloud is asked about a node that is not ready.
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub node_monitor_period: Duration,
}

impl Default for CloudNodeLifecycleSettings {
    fn default() -> Self {
        Self { node_monitor_period: Duration::from_secs(5) }
    }
}
