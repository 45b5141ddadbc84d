//! `oarlock probe`: whether a server is well, for health checks of containers that have no other client.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use oarlock_client::RawRequest;
use oarlock_config::{Credential, Endpoint, Kubeconfig, ServerTrust};

use crate::client;

/// Flags of `probe`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Probe {
    /// As whom to ask, and whom to trust; without this flag as nobody.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Whom to ask: `https://host:port`, several times or with commas, all of one kind. Without this flag the kubeconfig's API server.
    #[arg(
        long,
        visible_alias = "master",
        value_delimiter = ',',
        value_name = "URL,…",
        required_unless_present = "kubeconfig"
    )]
    server: Vec<String>,
    /// Authorities that sign the server's certificate; those of the kubeconfig without this flag.
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Believe any server: for one of this very host, which shows a certificate that nobody has signed.
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
    /// What to ask for.
    #[arg(long, default_value = "/readyz", value_name = "PATH")]
    path: String,
    /// Seconds that the answer may take.
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

/// The exit code: 0 for an answer of 200.
///
/// # Errors
/// When a file is unusable, nobody answers, or the answer is another.
pub(crate) async fn run(args: Probe) -> anyhow::Result<u8> {
    let client = client::of(&args.endpoint()?, concat!("oarlock-probe/", env!("CARGO_PKG_VERSION"))).await?;
    let reply = client.raw(RawRequest::get(args.path.clone(), Duration::from_secs(args.timeout))).await?;
    let code = reply.code;
    if code != 200 {
        let said = reply.bytes(MOST).await.unwrap_or_default();
        anyhow::bail!("{} is answered with {code}\n{}", args.path, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(0)
}

/// Bytes of an answer that are shown.
const MOST: usize = 64 << 10;
