//! `oarlock probe`: checks a server's health, for containers that have no other client.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use oarlock_client::RawRequest;
use oarlock_config::{Credential, Endpoint, Kubeconfig, ServerTrust};

use crate::client;

/// Flags of `probe`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Probe {
    /// Kubeconfig with the credentials to send and the authorities to trust. Without this flag requests are anonymous.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Servers to ask: `https://host:port`, several times or with commas, all of one kind. Without this flag the kubeconfig's API server.
    #[arg(
        long,
        visible_alias = "master",
        value_delimiter = ',',
        value_name = "URL,…",
        required_unless_present = "kubeconfig"
    )]
    server: Vec<String>,
    /// Authorities that must have signed the server's certificate. Without this flag those of the kubeconfig.
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Accept any certificate, for a server on this host with a self-signed certificate.
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
    /// Path to request.
    #[arg(long, default_value = "/readyz", value_name = "PATH")]
    path: String,
    /// Seconds to wait for the answer.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    timeout: u64,
}

impl Probe {
    fn endpoint(&self) -> anyhow::Result<Endpoint> {
        let own = match &self.kubeconfig {
            Some(path) => Kubeconfig::read(path)?.resolve(None)?,
            None => Endpoint {
                server: String::new(),
                more: Vec::new(),
                tls_server_name: None,
                trust: ServerTrust::System,
                credential: Credential::None,
                impersonate: None,
                namespace: None,
            },
        };
        let mut endpoint = own.at(&self.server)?;
        if let Some(file) = &self.certificate_authority {
            let pem = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            endpoint.trust = ServerTrust::Authorities(pem);
        } else if self.insecure_skip_tls_verify {
            endpoint.trust = ServerTrust::Anybody;
        }
        Ok(endpoint)
    }
}

/// Sends the request; the exit code is 0 for an answer of 200.
///
/// # Errors
/// When a file is unusable, no server answers, or the answer is not 200.
pub(crate) async fn run(args: Probe) -> anyhow::Result<u8> {
    let client = client::of(&args.endpoint()?, concat!("oarlock-probe/", env!("CARGO_PKG_VERSION"))).await?;
    let reply = client.raw(RawRequest::get(args.path.clone(), Duration::from_secs(args.timeout))).await?;
    let code = reply.code;
    if code != 200 {
        let said = reply.bytes(MAX_SHOWN_BYTES).await.unwrap_or_default();
        anyhow::bail!("{} is answered with {code}\n{}", args.path, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(0)
}

/// Largest number of bytes of a failed answer to print.
const MAX_SHOWN_BYTES: usize = 64 << 10;
