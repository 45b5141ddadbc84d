//! Flags of `oarlock cloud-controller-manager`.

use std::path::PathBuf;

use oarlock_controllers::{CloudNodeLifecycleSettings, CloudNodeSettings};

/// Flags of the cloud controller manager.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How the API is reached.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// Where the cloud's provider serves `oarlock.cloud.v1.CloudProvider`: `https://host:port`, on this host also `http://localhost:port` and
    /// `unix:///path`.
    #[arg(long, value_name = "URL")]
    pub cloud_provider_endpoint: String,
    /// Certificates (PEM) of who signs the provider's; those that this host trusts without this flag.
    #[arg(long, value_name = "FILE")]
    pub cloud_provider_ca_file: Option<PathBuf>,
    /// The certificate (PEM) to show the provider.
    #[arg(long, value_name = "FILE", requires = "cloud_provider_key_file")]
    pub cloud_provider_cert_file: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "cloud_provider_cert_file")]
    pub cloud_provider_key_file: Option<PathBuf>,
    /// What the cloud calls this cluster: the same for good, and another than that of any other cluster there.
    #[arg(long, default_value = "kubernetes", value_name = "NAME")]
    pub cluster_name: String,
    /// Controllers to run: `*` is all, `foo` this one, `-foo` not this one; of several mentions the first counts.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, value_name = "NAME,…")]
    pub controllers: Vec<String>,
    /// Settings of cloud-node-controller.
    #[command(flatten)]
    pub node: CloudNodeSettings,
    /// Settings of cloud-node-lifecycle-controller.
    #[command(flatten)]
    pub node_lifecycle: CloudNodeLifecycleSettings,
    /// How the other processes are reached, besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Port of this process's own server, for health and metrics; 0 is none. Two processes of one host need two.
    #[arg(long, default_value_t = 10258, value_name = "PORT")]
    pub secure_port: u16,
    /// The process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Log filter, such as `info` or `oarlock_controllers=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(more: &[&str]) -> Args {
        let line = ["oarlock", "--kubeconfig=k", "--cloud-provider-endpoint=http://localhost:1"];
        Line::try_parse_from(line.iter().chain(more)).unwrap().args
    }

    #[test]
    fn settings_have_upstreams_flags_and_their_defaults() {
        let args = parse(&[]);
        assert_eq!((args.node, args.node_lifecycle), Default::default());
        let args = parse(&["--node-status-update-frequency=1m", "--node-monitor-period=1s"]);
        assert_eq!(args.node.node_status_update_frequency, Duration::from_secs(60));
        assert_eq!(args.node_lifecycle.node_monitor_period, Duration::from_secs(1));
    }
}
