//! Flags of `oarlock scheduler`.

/// Flags of the scheduler.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// Values of `spec.schedulerName` to serve.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler", value_name = "NAME,…")]
    pub scheduler_name: Vec<String>,
    /// Bindings that may be in flight at once.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_binds: usize,
    /// How to reach NATS, which connects this process to the other processes besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Port of this process's own server, for health and metrics; 0 starts no server. Two processes of one host need different ports.
    #[arg(long, default_value_t = 10259, value_name = "PORT")]
    pub secure_port: u16,
    /// Flags of the process's own server.
    #[command(flatten)]
    pub serving: oarlock_config::SecureServingOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_scheduler=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}
