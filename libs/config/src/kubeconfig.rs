//! The kubeconfig file: `v1.Config` of client-go's `clientcmd/api/v1`. Unknown fields are ignored when reading and lost when writing. Unsupported fields that would change the
//! identity are refused.

mod endpoint;

use std::path::{Path, PathBuf};

use oarlock_pki::{AtomicFiles, Visibility};
use serde::{Deserialize, Serialize};

pub use endpoint::{ClientKey, Credential, Endpoint, ServerTrust};

use crate::{Error, Result};

/// A kubeconfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kubeconfig {
    /// `v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Config`.
    pub kind: String,
    /// The known clusters, by name.
    #[serde(deserialize_with = "null_as_default")]
    pub clusters: Vec<NamedCluster>,
    /// The known identities, by name.
    #[serde(deserialize_with = "null_as_default")]
    pub users: Vec<NamedAuthInfo>,
    /// Pairs of cluster and identity, by name.
    #[serde(deserialize_with = "null_as_default")]
    pub contexts: Vec<NamedContext>,
    /// Name of the default context.
    pub current_context: String,
    /// Path of the file; relative file references are relative to its directory.
    #[serde(skip)]
    pub source: PathBuf,
}

/// A named cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedCluster {
    /// Name that contexts refer to.
    pub name: String,
    /// The cluster.
    pub cluster: Cluster,
}

/// Address of a cluster's server and the trust in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// `https://host:port[/path]`.
    pub server: String,
    /// Name expected in the server's certificate, if different from the host of `server`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_server_name: String,
    /// Skip verification of the server's certificate.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure_skip_tls_verify: bool,
    /// File with the certificate authorities in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate_authority: String,
    /// The certificate authorities in base64 of PEM; wins over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate_authority_data: String,
    /// A proxy; refused, because proxies are not supported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,
}

/// A named identity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedAuthInfo {
    /// Name that contexts refer to.
    pub name: String,
    /// The identity.
    pub user: AuthInfo,
}

/// A client's identity.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AuthInfo {
    /// File with the client certificate in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_certificate: String,
    /// The client certificate in base64 of PEM; wins over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_certificate_data: String,
    /// File with the certificate's key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_key: String,
    /// The certificate's key in base64 of PEM; wins over the file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_key_data: String,
    /// A bearer token.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// File with a bearer token, which may be rotated; wins over `token`.
    #[serde(rename = "tokenFile", skip_serializing_if = "String::is_empty")]
    pub token_file: String,
    /// User to impersonate.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty")]
    pub impersonate: String,
    /// Program that prints a credential; refused.
    #[serde(skip_serializing)]
    pub exec: Option<serde_norway::Value>,
    /// In-tree provider, removed from client-go; refused.
    #[serde(skip_serializing)]
    pub auth_provider: Option<serde_norway::Value>,
    /// Basic authentication, which servers no longer accept; refused.
    #[serde(skip_serializing)]
    pub username: String,
}

/// Prints which fields are set, never a secret.
impl std::fmt::Debug for AuthInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |text: &str| if text.is_empty() { "" } else { "(set)" };
        f.debug_struct("AuthInfo")
            .field("client_certificate", &self.client_certificate)
            .field("client_certificate_data", &shown(&self.client_certificate_data))
            .field("client_key", &self.client_key)
            .field("client_key_data", &shown(&self.client_key_data))
            .field("token", &shown(&self.token))
            .field("token_file", &self.token_file)
            .field("impersonate", &self.impersonate)
            .finish_non_exhaustive()
    }
}

/// A named context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedContext {
    /// Name that `--context` takes.
    pub name: String,
    /// The context.
    pub context: Context,
}

/// A pair of cluster and identity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Name of a cluster.
    pub cluster: String,
    /// Name of an identity.
    pub user: String,
    /// Default namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Kubeconfig {
    /// Builds a kubeconfig with one context and embedded data: the server, its certificate authority, and a client certificate with its key (all three PEM).
    #[must_use]
    pub fn embedded(cluster: &str, server: &str, authority: &str, user: &str, certificate: &str, key: &str) -> Self {
        let context = format!("{user}@{cluster}");
        Self {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            clusters: vec![NamedCluster {
                name: cluster.to_owned(),
                cluster: Cluster {
                    server: server.to_owned(),
                    certificate_authority_data: endpoint::encode(authority),
                    ..Cluster::default()
                },
            }],
            users: vec![NamedAuthInfo {
                name: user.to_owned(),
                user: AuthInfo {
                    client_certificate_data: endpoint::encode(certificate),
                    client_key_data: endpoint::encode(key),
                    ..AuthInfo::default()
                },
            }],
            contexts: vec![NamedContext {
                name: context.clone(),
                context: Context { cluster: cluster.to_owned(), user: user.to_owned(), namespace: String::new() },
            }],
            current_context: context,
            source: PathBuf::new(),
        }
    }

    /// Reads a kubeconfig file (YAML or JSON).
    ///
    /// # Errors
    /// When the file cannot be read, is not YAML, or is not a kubeconfig.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses a kubeconfig from text that was read from `source`.
    ///
    /// # Errors
    /// When the text is not YAML or not a kubeconfig.
    pub fn parse(text: &str, source: &Path) -> Result<Self> {
        let mut config: Self =
            serde_norway::from_str(text).map_err(|e| Error::Parse { path: source.to_owned(), source: e })?;
        config.source = source.to_owned();
        // Upstream fills in both fields when they are absent.
        if !matches!(config.api_version.as_str(), "" | "v1") {
            return Err(config.field("apiVersion", format!("must be v1, not {:?}", config.api_version)));
        }
        if !matches!(config.kind.as_str(), "" | "Config") {
            return Err(config.field("kind", format!("must be Config, not {:?}", config.kind)));
        }
        Ok(config)
    }

    /// Renders the file as text.
    ///
    /// # Errors
    /// When the library cannot render it.
    pub fn to_yaml(&self) -> Result<String> {
        serde_norway::to_string(self).map_err(Error::Render)
    }

    /// Writes the file atomically, with mode 0600.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut files = AtomicFiles::new();
        files.add(path, Visibility::Private, self.to_yaml()?);
        Ok(files.commit()?)
    }

    pub(crate) fn field(&self, field: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Field { path: self.source.clone(), field: field.into(), reason: reason.into() }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// `clusters: null` is an empty list, as in Go.
fn null_as_default<'de, D, T>(deserializer: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
