//! The file of kind EgressSelectorConfiguration (upstream: `apiserver.k8s.io/v1beta1`).

use std::path::Path;

use serde::Deserialize;

use crate::files::text;
use crate::{Error, Result};

/// Versions of the kind, all of one content.
const API_VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"];

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    api_version: String,
    kind: String,
    egress_selections: Option<Vec<Selection>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Selection {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) connection: Connection,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Connection {
    #[serde(default)]
    pub(super) proxy_protocol: String,
    pub(super) transport: Option<Transport>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Transport {
    pub(super) tcp: Option<Tcp>,
    pub(super) uds: Option<Uds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Tcp {
    #[serde(default)]
    pub(super) url: String,
    pub(super) tls_config: Option<TlsConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Uds {
    #[serde(default)]
    pub(super) uds_name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TlsConfig {
    #[serde(default)]
    pub(super) ca_bundle: String,
    #[serde(default)]
    pub(super) client_key: String,
    #[serde(default)]
    pub(super) client_cert: String,
}

/// Reads the selections of a file as they are written.
///
/// # Errors
/// When the file cannot be read, has a field that the kind has not, or is of another kind or version.
pub(super) fn read(path: &Path) -> Result<Vec<Selection>> {
    let written = serde_norway::from_str(&text(path)?);
    let written: Written = written.map_err(|source| Error::Parse { path: path.to_owned(), source })?;
    let wrong = |field: &str, reason| Error::Field { path: path.to_owned(), field: field.to_owned(), reason };
    if !API_VERSIONS.contains(&written.api_version.as_str()) {
        let reason = format!("{:?} is not one of {}", written.api_version, API_VERSIONS.join(", "));
        return Err(wrong("apiVersion", reason));
    }
    if written.kind != "EgressSelectorConfiguration" {
        return Err(wrong("kind", format!("{:?} is not \"EgressSelectorConfiguration\"", written.kind)));
    }
    Ok(written.egress_selections.unwrap_or_default())
}
