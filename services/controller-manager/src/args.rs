//! Flags of `oarlock controller-manager`.

use std::path::PathBuf;

/// Flags of the controller manager.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How the API is reached.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// Controllers to run: `*` is all, `foo` this one, `-foo` not this one.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, value_name = "NAME,…")]
    pub controllers: Vec<String>,
    /// Controllers to leave out, by name.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub disable: Vec<String>,
    /// Certificates (PEM) for ConfigMap `kube-root-ca.crt`; those of the kubeconfig without this flag.
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// How the other processes are reached, besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Port of this process's own server, for health and metrics; 0 is none. Two processes of one host need two.
    #[arg(long, default_value_t = 10257, value_name = "PORT")]
    pub secure_port: u16,
    /// The process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Log filter, such as `info` or `oarlock_controllers=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
