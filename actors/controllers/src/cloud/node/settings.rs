//! Settings of cloud-node-controller.

use std::time::Duration;

/// Flags of cloud-node-controller; names are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct CloudNodeSettings {
    /// How often the cloud is asked about a node whose addresses and labels are known.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub node_status_update_frequency: Duration,
}

impl Default for CloudNodeSettings {
    fn default() -> Self {
        Self { node_status_update_frequency: Duration::from_secs(300) }
    }
}
