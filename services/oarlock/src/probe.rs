//! `oarlock probe`: whether an API server is well, for health checks of containers that have no other client.

use std::path::PathBuf;
use std::time::Duration;

use oarlock_client::RawRequest;

use crate::client;

/// Flags of `probe`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Probe {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The server to ask instead of the kubeconfig's one.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
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
    let servers: Vec<String> = args.server.into_iter().collect();
    let client = client::of(&args.kubeconfig, &servers, concat!("oarlock-probe/", env!("CARGO_PKG_VERSION"))).await?;
    let reply = client.raw(RawRequest::get(args.path.clone(), Duration::from_secs(args.timeout))).await?;
    anyhow::ensure!(reply.code == 200, "{} is answered with {}", args.path, reply.code);
    Ok(0)
}
