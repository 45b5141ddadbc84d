//! Flags of `oarlock admission`.

use std::path::PathBuf;

/// Flags of the admission stage.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Writes that are judged at once. Requests above this number are refused, and the API servers judge those themselves.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub max_reviews: usize,
    /// How to reach NATS, which connects this process to the API servers.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Kubeconfig of an API server, which authenticates and authorizes requests at --secure-port. Without this flag only paths that need no authorization are
    /// served.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Port of this process's own server, for health and metrics; 0 starts no server. Two processes of one host need different ports. Upstream has no such
    /// process; the default follows upstream's ports.
    #[arg(long, default_value_t = 10260, value_name = "PORT")]
    pub secure_port: u16,
    /// Flags of the process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_admission=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
