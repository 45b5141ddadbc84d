//! Flags of `oarlock scheduler`.

use std::path::PathBuf;

/// Flags of the scheduler.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API server, and as whom (`system:kube-scheduler`).
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// API servers to speak to instead of the kubeconfig's one, all with its authorities: `https://host:port`, several times or with commas.
    /// Requests go to all that are ready, and a watch goes on at another when its own ends. A name with several addresses, here or in the
    /// kubeconfig, does the same.
    #[arg(long, visible_alias = "master", value_delimiter = ',', value_name = "URL,…")]
    pub server: Vec<String>,
    /// Values of `spec.schedulerName` to serve.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler", value_name = "NAME,…")]
    pub scheduler_name: Vec<String>,
    /// Bindings that may be under way at once.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_binds: usize,
    /// How the other processes are reached, besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Log filter, such as `info` or `oarlock_scheduler=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
