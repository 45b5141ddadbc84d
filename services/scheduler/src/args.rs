//! Flags of `oarlock scheduler`.

use std::path::PathBuf;

/// Flags of the scheduler.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API server, and as whom (`system:kube-scheduler`).
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Values of `spec.schedulerName` to serve.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler", value_name = "NAME,…")]
    pub scheduler_name: Vec<String>,
    /// Bindings that may be under way at once.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_binds: usize,
    /// Log filter, such as `info` or `oarlock_scheduler=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
