//! Flags of `oarlock admission`.

use std::path::PathBuf;

/// Flags of the admission stage.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Writes that are judged at once; API servers judge what is too many themselves.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub max_reviews: usize,
    /// How the API servers are reached.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// How an API server is reached, which says who may see what is not open to everybody at --secure-port. Without this flag nobody may.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Port of this process's own server, for health and metrics; 0 is none. Two processes of one host need two. Upstream has no such process, so
    /// this port is ours: the one behind those of upstream's.
    #[arg(long, default_value_t = 10260, value_name = "PORT")]
    pub secure_port: u16,
    /// The process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Log filter, such as `info` or `oarlock_admission=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
