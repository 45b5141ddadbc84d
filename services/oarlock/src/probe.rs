//! `oarlock probe`: whether an API server is well, for health checks of containers that have no other client.

use std::time::Duration;

use oarlock_client::RawRequest;
use oarlock_config::ApiOptions;

use crate::client;

/// Flags of `probe`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Probe {
    /// How the API is reached.
    #[command(flatten)]
    api: ApiOptions,
    /// What to ask for.
    #[arg(long, default_value = "/readyz", value_name = "PATH")]
    path: String,
    /// Seconds that the answer may take.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    timeout: u64,
}

/// The exit code: 0 for an answer of 200.
///
/// # Errors
/// When the kubeconfig is unusable, nobody answers, or the answer is another.
pub(crate) async fn run(args: Probe) -> anyhow::Result<u8> {
    let client = client::of(&args.api.read()?, concat!("oarlock-probe/", env!("CARGO_PKG_VERSION"))).await?;
    let reply = client.raw(RawRequest::get(args.path.clone(), Duration::from_secs(args.timeout))).await?;
    anyhow::ensure!(reply.code == 200, "{} is answered with {}", args.path, reply.code);
    Ok(0)
}
