//! Settings of the HTTPS transport: servers, trust and identity.

use std::path::PathBuf;
use std::sync::Arc;

use oarlock_config::{Credential, ServerTrust};
use oarlock_pki::{CertificateDer, PrivateKeyDer, tls};
use rustls_pki_types::pem::PemObject;

/// Why a transport cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address is not `https://host[:port][/path]`.
    #[error("server address {address:?}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// Description of the error.
        reason: String,
    },
    /// A value is not valid in a header.
    #[error("header {name}: value {value:?} is malformed")]
    Header {
        /// Name of the header.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// A certificate or key cannot be used.
    #[error("{what}: {reason}")]
    Credential {
        /// The certificate or key.
        what: &'static str,
        /// Description of the error.
        reason: String,
    },
    /// The TLS configuration is refused.
    #[error("tls")]
    Tls(#[from] oarlock_pki::Error),
}

/// The client's identity, besides a client certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// Anonymous, or identified by the client certificate alone.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A file with a bearer token, read again every minute and after a 401 (bound tokens are renewed in place).
    TokenFile(PathBuf),
}

impl std::fmt::Debug for Auth {
    /// Never shows a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
        }
    }
}

/// Settings of the HTTPS transport.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Addresses `https://host[:port][/path]` of equal apiservers; at least one. A name with several addresses counts as that many servers.
    pub servers: Vec<String>,
    /// TLS configuration: trusted authorities and the client certificate.
    pub tls: Arc<rustls::ClientConfig>,
    /// Name expected in the servers' certificates, if different from the host.
    pub server_name: Option<String>,
    /// The client's identity, besides a client certificate.
    pub auth: Auth,
    /// The user to impersonate.
    pub impersonate: Option<String>,
    /// `name/version`; the part before the slash is the default field manager.
    pub user_agent: String,
}

impl Endpoint {
    /// Creates the settings from a kubeconfig's context.
    ///
    /// # Errors
    /// When a certificate or key is malformed, or the system's certificate authorities cannot be read.
    pub fn new(config: &oarlock_config::Endpoint, user_agent: impl Into<String>) -> Result<Self, Error> {
        let trust = match &config.trust {
            ServerTrust::Authorities(pem) => tls::ServerTrust::Authorities(oarlock_pki::parse_chain(pem)?),
            ServerTrust::Anybody => tls::ServerTrust::Anybody,
            ServerTrust::System => tls::ServerTrust::Authorities(system_authorities()?),
        };
        let (identity, auth) = match &config.credential {
            Credential::None => (None, Auth::None),
            Credential::Certificate(pair) => (Some(identity(&pair.certificate, &pair.key)?), Auth::None),
            Credential::Token(token) => (None, Auth::Token(token.clone())),
            Credential::TokenFile(path) => (None, Auth::TokenFile(path.clone())),
        };
        Ok(Self {
            servers: config.servers().map(str::to_owned).collect(),
            tls: Arc::new(tls::client_config(trust, identity)?),
            server_name: config.tls_server_name.clone(),
            auth,
            impersonate: config.impersonate.clone(),
            user_agent: user_agent.into(),
        })
    }

    /// Returns the settings with these equal servers.
    #[must_use]
    pub fn with_servers(mut self, servers: Vec<String>) -> Self {
        self.servers = servers;
        self
    }
}

/// A client certificate chain with its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(certificate: &str, key: &str) -> Result<Identity, Error> {
    let chain = oarlock_pki::parse_chain(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|e| Error::Credential { what: "client key", reason: e.to_string() })?;
    Ok((chain, key))
}

/// Returns the certificate authorities of the machine.
///
/// # Errors
/// When there are none.
pub fn system_authorities() -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let reason = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(Error::Credential { what: "system authorities", reason });
    }
    Ok(found.certs)
}
