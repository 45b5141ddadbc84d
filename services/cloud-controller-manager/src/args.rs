//! Flags of `oarlock cloud-controller-manager`.

use std::path::PathBuf;

use oarlock_controllers::{CloudNodeLifecycleSettings, CloudNodeSettings, CloudTable, ConcurrencyFlags};

/// Flags of the cloud controller manager.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// Address where the cloud provider serves `oarlock.cloud.v1.CloudProvider`: `https://host:port`, on this host also `http://localhost:port` and
    /// `unix:///path`.
    #[arg(long, value_name = "URL")]
    pub cloud_provider_endpoint: String,
    /// File (PEM) with the authorities that must have signed the provider's certificate. Without this flag the host's trusted authorities.
    #[arg(long, value_name = "FILE")]
    pub cloud_provider_ca_file: Option<PathBuf>,
    /// Client certificate (PEM) for connections to the provider.
    #[arg(long, value_name = "FILE", requires = "cloud_provider_key_file")]
    pub cloud_provider_cert_file: Option<PathBuf>,
    /// Key (PEM) of the client certificate of --cloud-provider-cert-file.
    #[arg(long, value_name = "FILE", requires = "cloud_provider_cert_file")]
    pub cloud_provider_key_file: Option<PathBuf>,
    /// Name of this cluster in the cloud. The name must never change, and no other cluster in the same cloud may have it.
    #[arg(long, default_value = "kubernetes", value_name = "NAME")]
    pub cluster_name: String,
    /// Controllers to run: `*` is all, `foo` this one, `-foo` not this one; of several entries for a controller the first counts.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, value_name = "NAME,…")]
    pub controllers: Vec<String>,
    /// Settings of cloud-node-controller.
    #[command(flatten)]
    pub node: CloudNodeSettings,
    /// Settings of cloud-node-lifecycle-controller.
    #[command(flatten)]
    pub node_lifecycle: CloudNodeLifecycleSettings,
    /// Numbers of keys that controllers reconcile at once.
    #[command(flatten)]
    pub concurrency: ConcurrencyFlags<CloudTable>,
    /// How to reach NATS, which connects this process to the other processes besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Port of this process's own server, for health and metrics; 0 starts no server. Two processes of one host need different ports.
    #[arg(long, default_value_t = 10258, value_name = "PORT")]
    pub secure_port: u16,
    /// Flags of the process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
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
        let workers = |args: &Args| -> Vec<usize> {
            oarlock_controllers::cloud_rows().iter().map(|row| args.concurrency.workers(row)).collect()
        };
        assert_eq!(workers(&parse(&[])), [4, 4, 4]);
        assert_eq!(workers(&parse(&["--concurrent-node-syncs=1", "--concurrent-service-syncs=2"])), [1, 4, 2]);
        let args = parse(&["--node-status-update-frequency=1m", "--node-monitor-period=1s"]);
        assert_eq!(args.node.node_status_update_frequency, Duration::from_secs(60));
        assert_eq!(args.node_lifecycle.node_monitor_period, Duration::from_secs(1));
    }
}
