//! Where to connect and as whom.

use std::path::PathBuf;
use std::sync::Arc;

use oarlock_config::{Credential, ServerTrust};
use oarlock_pki::{CertificateDer, PrivateKeyDer, tls};
use rustls_pki_types::pem::PemObject;

/// Why a transport cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address is no `https://host[:port][/path]`.
    #[error("server address {address:?}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// A value cannot stand in a header.
    #[error("header {name}: value {value:?} is malformed")]
    Header {
        /// The header.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// A certificate or key cannot be read.
    #[error("{what}: {reason}")]
    Credential {
        /// Which.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The TLS configuration is refused.
    #[error("tls")]
    Tls(#[from] oarlock_pki::Error),
}

/// Who one is, beside a client certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// Nobody, or the client certificate says it.
    #[default]
    None,
    /// The bearer of a token.
    Token(String),
    /// The bearer of the token in a file, which is read again every minute and after a 401 (bound tokens are renewed in place).
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

/// What the HTTPS transport needs to know.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Addresses `https://host[:port][/path]` of equal apiservers; at least one. A name that stands for several addresses is that many servers.
    pub servers: Vec<String>,
    /// Whom to trust and the client certificate.
    pub tls: Arc<rustls::ClientConfig>,
    /// The name the servers' certificates must carry, where it is not the host.
    pub server_name: Option<String>,
    /// Who one is, beside a client certificate.
    pub auth: Auth,
    /// The user to act as.
    pub impersonate: Option<String>,
    /// `name/version`; the part before the slash is the default field manager.
    pub user_agent: String,
}

impl Endpoint {
    /// From a context of a kubeconfig.
    ///
    /// # Errors
    /// When a certificate or key is malformed, or the system's authorities cannot be found.
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

    /// The same over several equal servers.
    #[must_use]
    pub fn with_servers(mut self, servers: Vec<String>) -> Self {
        self.servers = servers;
        self
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(certificate: &str, key: &str) -> Result<Identity, Error> {
    let chain = oarlock_pki::parse_chain(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|e| Error::Credential { what: "client key", reason: e.to_string() })?;
    Ok((chain, key))
}

fn system_authorities() -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let reason = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(Error::Credential { what: "system authorities", reason });
    }
    Ok(found.certs)
}
