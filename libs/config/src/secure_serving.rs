//! Flags of the HTTPS server for health and metrics.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Flags of a component's own HTTPS server, without its port; flag names are upstream's.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The part's own server")]
pub struct SecureServingOptions {
    /// Address on which /healthz, /livez, /readyz, /metrics and /debug/actors are served, over HTTPS.
    #[arg(long, default_value_t = Self::default().bind_address, value_name = "IP")]
    pub bind_address: IpAddr,
    /// Serving certificate, with its intermediate certificates. By default a self-signed certificate is created in memory at each start.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Certificate authorities trusted for client certificates. By default those of the kubeconfig, which signed the API server's certificate.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Paths that are served without authorization; `/a/*` covers all paths below. For other paths the API server is asked (`get` of the nonResourceURL).
    #[arg(long, value_delimiter = ',', default_values_t = Self::default().authorization_always_allow_paths, value_name = "PATH,…")]
    pub authorization_always_allow_paths: Vec<String>,
}

impl Default for SecureServingOptions {
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            tls_cert_file: None,
            tls_private_key_file: None,
            client_ca_file: None,
            authorization_always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).into(),
        }
    }
}
