//! Flags of `oarlock admission`.

/// Flags of the admission stage.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Writes that are judged at once; API servers judge what is too many themselves.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub max_reviews: usize,
    /// How the API servers are reached.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Log filter, such as `info` or `oarlock_admission=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
