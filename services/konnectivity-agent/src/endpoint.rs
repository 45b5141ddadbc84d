//! The address of the tunnel's servers, with the agent's certificates.

use std::path::Path;

use anyhow::Context;
use oarlock_pki::tls::{ServerTrust, ServingCertificate, client_config};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::args::Args;

/// Returns the address of the servers.
///
/// # Errors
/// When the host is invalid or a file is unusable; the text names the flag.
pub(crate) fn endpoint(args: &Args) -> anyhow::Result<Endpoint> {
    let host = args.proxy_server_host.trim_start_matches('[').trim_end_matches(']');
    let in_url = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let endpoint = Endpoint::from_shared(format!("https://{in_url}:{}", args.proxy_server_port));
    let endpoint = endpoint.with_context(|| format!("--proxy-server-host {}", args.proxy_server_host))?;
    let mut tls = ClientTlsConfig::new().domain_name(host);
    tls = match &args.ca_cert {
        Some(file) => tls.ca_certificate(Certificate::from_pem(authorities(file).context("--ca-cert")?)),
        None => tls.with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&args.agent_cert, &args.agent_key) {
        let identity = identity(certificate, key).context("--agent-cert, --agent-key")?;
        tls = tls.identity(identity);
    }
    endpoint.tls_config(tls).with_context(|| format!("--proxy-server-host {}", args.proxy_server_host))
}

/// Reads authorities, and checks that there is one at least: with none of them no server would ever be trusted.
fn authorities(file: &Path) -> anyhow::Result<String> {
    let pem = oarlock_pki::read(file)?;
    let usable = oarlock_pki::parse_chain(&pem).and_then(|chain| client_config(ServerTrust::Authorities(chain), None));
    usable.map_err(|error| error.in_file(file))?;
    Ok(pem)
}

/// Reads a certificate and its key, and checks that they belong together.
fn identity(certificate: &Path, key: &Path) -> anyhow::Result<Identity> {
    ServingCertificate::read(certificate, key)?;
    Ok(Identity::from_pem(oarlock_pki::read(certificate)?, oarlock_pki::read(key)?))
}
