//! Resolves a kubeconfig context to what a client needs: server address, trust, credential.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Kubeconfig;
use crate::{Error, Result};

/// Servers, trust and credential of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// `https://host:port[/path]`, without a trailing slash.
    pub server: String,
    /// Further equal servers, in the same form. A kubeconfig has no field for them; see [`Endpoint::at`].
    pub more: Vec<String>,
    /// Name expected in the server's certificate, if different from the host.
    pub tls_server_name: Option<String>,
    /// How the server's certificate is verified.
    pub trust: ServerTrust,
    /// The client's credential.
    pub credential: Credential,
    /// The user to impersonate, if any.
    pub impersonate: Option<String>,
    /// The context's namespace, if it names one.
    pub namespace: Option<String>,
}

/// How a client verifies the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTrust {
    /// By these certificate authorities (PEM).
    Authorities(String),
    /// By the operating system's certificate authorities.
    System,
    /// Not at all.
    Anybody,
}

/// A client's credential.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// None: `system:anonymous`.
    None,
    /// A client certificate.
    Certificate(ClientKey),
    /// A bearer token.
    Token(String),
    /// A file with a bearer token, to be reread periodically.
    TokenFile(PathBuf),
}

/// A client certificate with its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKey {
    /// The certificate chain, leaf first.
    pub certificate: String,
    /// The private key. Secret.
    pub key: String,
}

/// Prints the kind of credential, never a secret.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Certificate(_) => "Certificate(..)",
            Self::Token(_) => "Token(..)",
            Self::TokenFile(_) => "TokenFile(..)",
        })
    }
}

impl std::fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientKey(..)")
    }
}

impl Kubeconfig {
    /// Resolves a context (default: the current one): reads the referenced files and refuses unsupported settings.
    ///
    /// # Errors
    /// Names the file and the field that is missing, invalid or not supported.
    pub fn resolve(&self, context: Option<&str>) -> Result<Endpoint> {
        let name = context.unwrap_or(&self.current_context);
        if name.is_empty() {
            return Err(self.field("current-context", "is not set and no context is asked for"));
        }
        let context = self
            .contexts
            .iter()
            .find(|c| c.name == name)
            .ok_or_else(|| self.field("contexts", format!("there is no context {name:?}")))?;
        let context = &context.context;
        let at = format!("contexts[{name}].context");
        let cluster =
            self.clusters.iter().find(|c| c.name == context.cluster).ok_or_else(|| {
                self.field(format!("{at}.cluster"), format!("there is no cluster {:?}", context.cluster))
            })?;
        let (cluster_at, cluster) = (format!("clusters[{}].cluster", cluster.name), &cluster.cluster);
        let server = self.server(&cluster_at, &cluster.server)?;
        if !cluster.proxy_url.is_empty() {
            return Err(self.field(format!("{cluster_at}.proxy-url"), "proxies are not supported"));
        }
        let authorities = self.data_or_file(
            &format!("{cluster_at}.certificate-authority"),
            &cluster.certificate_authority_data,
            &cluster.certificate_authority,
        )?;
        let trust = match (cluster.insecure_skip_tls_verify, authorities) {
            (true, Some(_)) => {
                let reason = "cannot be combined with certificate-authority";
                return Err(self.field(format!("{cluster_at}.insecure-skip-tls-verify"), reason));
            }
            (true, None) => ServerTrust::Anybody,
            (false, Some(pem)) => ServerTrust::Authorities(pem),
            (false, None) => ServerTrust::System,
        };
        let (credential, impersonate) = self.credential(&at, &context.user)?;
        Ok(Endpoint {
            server,
            more: Vec::new(),
            tls_server_name: some(&cluster.tls_server_name),
            trust,
            credential,
            impersonate,
            namespace: some(&context.namespace),
        })
    }

    fn server(&self, at: &str, server: &str) -> Result<String> {
        address(server).map_err(|reason| self.field(format!("{at}.server"), reason))
    }

    fn credential(&self, at: &str, user: &str) -> Result<(Credential, Option<String>)> {
        if user.is_empty() {
            return Ok((Credential::None, None));
        }
        let found = self
            .users
            .iter()
            .find(|u| u.name == user)
            .ok_or_else(|| self.field(format!("{at}.user"), format!("there is no user {user:?}")))?;
        let (at, user) = (format!("users[{user}].user"), &found.user);
        let unsupported = |field: &str, reason: &str| Err(self.field(format!("{at}.{field}"), reason));
        if user.exec.is_some() {
            return unsupported("exec", "credential plugins are not supported; use a client certificate or a token");
        }
        if user.auth_provider.is_some() {
            return unsupported(
                "auth-provider",
                "auth providers are not supported; use a client certificate or a token",
            );
        }
        if !user.username.is_empty() {
            return unsupported(
                "username",
                "basic authentication is not supported; use a client certificate or a token",
            );
        }
        let certificate = self.data_or_file(
            &format!("{at}.client-certificate"),
            &user.client_certificate_data,
            &user.client_certificate,
        )?;
        let key = self.data_or_file(&format!("{at}.client-key"), &user.client_key_data, &user.client_key)?;
        let credential = match (certificate, key) {
            (Some(certificate), Some(key)) => Credential::Certificate(ClientKey { certificate, key }),
            (Some(_), None) => return unsupported("client-key", "is missing although client-certificate is there"),
            (None, Some(_)) => return unsupported("client-certificate", "is missing although client-key is there"),
            (None, None) if !user.token_file.is_empty() => Credential::TokenFile(self.relative(&user.token_file)),
            (None, None) if !user.token.is_empty() => Credential::Token(user.token.clone()),
            (None, None) => Credential::None,
        };
        Ok((credential, some(&user.impersonate)))
    }

    /// Returns the embedded text or the file's content; embedded text wins, as in client-go.
    fn data_or_file(&self, at: &str, data: &str, file: &str) -> Result<Option<String>> {
        if !data.is_empty() {
            let at = format!("{at}-data");
            let compact: String = data.chars().filter(|c| !c.is_whitespace()).collect();
            let bytes = STANDARD.decode(compact).map_err(|e| self.field(&at, format!("is no base64: {e}")))?;
            return String::from_utf8(bytes).map(Some).map_err(|_| self.field(at, "does not hold PEM"));
        }
        if file.is_empty() {
            return Ok(None);
        }
        let path = self.relative(file);
        std::fs::read_to_string(&path).map(Some).map_err(|e| self.field(at, format!("read {}: {e}", path.display())))
    }

    /// Resolves a file reference relative to the kubeconfig.
    fn relative(&self, file: &str) -> PathBuf {
        self.source.parent().map_or_else(|| PathBuf::from(file), |parent| parent.join(file))
    }
}

pub(super) fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// Normalizes a server's address, or says what is wrong with it.
fn address(server: &str) -> std::result::Result<String, String> {
    let Some(rest) = server.strip_prefix("https://") else {
        return Err(format!("must be https://host:port, not {server:?}"));
    };
    if rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) || rest.contains(char::is_whitespace) {
        return Err(format!("names no host: {server:?}"));
    }
    Ok(server.trim_end_matches('/').to_owned())
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Endpoint {
    /// Replaces the servers by these equal ones; an empty list changes nothing.
    ///
    /// # Errors
    /// Names the invalid address.
    pub fn at(mut self, servers: &[String]) -> Result<Self> {
        let wrong = |reason| Error::Server { reason };
        let mut all =
            servers.iter().map(|server| address(server).map_err(wrong)).collect::<Result<Vec<_>>>()?.into_iter();
        if let Some(first) = all.next() {
            self.server = first;
            self.more = all.collect();
        }
        Ok(self)
    }

    /// Returns the addresses of all servers; at least one.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.server).chain(&self.more).map(String::as_str)
    }

    /// Returns host and port of the server's address.
    #[must_use]
    pub fn authority(&self) -> &str {
        let rest = self.server.strip_prefix("https://").unwrap_or(&self.server);
        rest.split('/').next().unwrap_or(rest)
    }
}
