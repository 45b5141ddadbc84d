//! Secrets of the cluster that hosts a control plane, each with the files of a folder.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_client::{Client, PatchType, WriteOptions};
use oarlock_meta::Status;
use oarlock_schema::Resource;
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::Files;

/// HTTP code of a create of an object that exists, and of a change of another revision than the present one.
const CONFLICT: u16 = 409;
/// Stands for `/` in a key of a Secret, which takes letters, digits and `-._` only.
const SEPARATOR: char = '_';

/// The Secrets of one control plane.
pub(super) struct Secrets {
    client: Client,
    resource: &'static Resource,
    namespace: String,
    prefix: String,
}

/// A Secret as it was read.
pub(super) struct Present {
    /// The files it holds.
    pub(super) files: Files,
    revision: String,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The Secret is new.
    Created,
    /// The Secret has other files now.
    Changed,
    /// The Secret had these files already; nothing was written.
    Unchanged,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        })
    }
}

/// The read fields of a Secret.
#[derive(Deserialize)]
struct Body {
    metadata: Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Secrets {
    /// Returns the Secrets of this namespace whose names begin with `<prefix>-`.
    ///
    /// # Errors
    /// When this program knows no Secrets.
    pub(super) fn new(client: Client, namespace: &str, prefix: &str) -> anyhow::Result<Self> {
        let resource = oarlock_schema::resource("", "v1", "secrets").context("no resource secrets")?;
        Ok(Self { client, resource, namespace: namespace.to_owned(), prefix: prefix.to_owned() })
    }

    /// Returns the name of a part's Secret.
    pub(super) fn name(&self, part: &str) -> String {
        format!("{}-{part}", self.prefix)
    }

    /// Reads a part's Secret; `None` when it does not exist.
    ///
    /// # Errors
    /// When the server refuses, or the Secret holds something else than files.
    pub(super) async fn read(&self, part: &str) -> anyhow::Result<Option<Present>> {
        let name = self.name(part);
        let found = self
            .client
            .find(self.resource, &self.namespace, &name)
            .await
            .map_err(|status| self.said(&name, &status))?;
        found.map(|object| present(&object.bytes)).transpose().with_context(|| format!("secret {name}"))
    }

    /// Makes a part's Secret hold these files and no others; `None` when another process has written it since it was read.
    ///
    /// # Errors
    /// When the server refuses, or a path cannot be a key of a Secret.
    pub(super) async fn write(
        &self,
        part: &str,
        present: Option<&Present>,
        files: &Files,
    ) -> anyhow::Result<Option<Written>> {
        let name = self.name(part);
        let data = data(files)?;
        let (written, reply) = match present {
            Some(present) if present.files == *files => return Ok(Some(Written::Unchanged)),
            Some(present) => {
                let patch =
                    json!({"metadata": {"resourceVersion": present.revision}, "data": changes(&present.files, data)?});
                let patch = (PatchType::Merge, patch.to_string());
                let key = (self.namespace.as_str(), name.as_str());
                (Written::Changed, self.client.patch(self.resource, "", key, patch, WriteOptions::default()).await)
            }
            None => {
                let new = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
                    "metadata": {"name": name, "namespace": self.namespace, "labels": {
                        "app.kubernetes.io/managed-by": "oarlock-keys", "app.kubernetes.io/instance": self.prefix,
                    }},
                });
                let new = oarlock_client::decode(self.resource.ty, new.to_string().as_bytes())?;
                (Written::Created, self.client.create(self.resource, new).await)
            }
        };
        match reply {
            Ok(_) => Ok(Some(written)),
            Err(status) if status.code == CONFLICT => Ok(None),
            Err(status) => Err(self.said(&name, &status)),
        }
    }

    fn said(&self, name: &str, status: &Status) -> anyhow::Error {
        anyhow::anyhow!("secret {name} in {}: {} ({})", self.namespace, status.message, status.code)
    }
}

/// Reads the files and the revision from a Secret's JSON.
fn present(bytes: &[u8]) -> anyhow::Result<Present> {
    let body: Body = serde_json::from_slice(bytes)?;
    let mut files = Files::new();
    for (key, content) in body.data.unwrap_or_default() {
        let content = STANDARD.decode(content).with_context(|| key.clone())?;
        files.insert(key.replace(SEPARATOR, "/"), content);
    }
    Ok(Present { files, revision: body.metadata.resource_version })
}

/// Returns the `data` of a Secret with these files.
fn data(files: &Files) -> anyhow::Result<serde_json::Map<String, Value>> {
    let mut data = serde_json::Map::new();
    for (path, content) in files {
        data.insert(key(path)?, STANDARD.encode(content).into());
    }
    Ok(data)
}

/// Returns the fields of `data` to send in a merge patch: null for each file that is no longer wanted.
fn changes(
    present: &Files,
    mut wanted: serde_json::Map<String, Value>,
) -> anyhow::Result<serde_json::Map<String, Value>> {
    for path in present.keys() {
        wanted.entry(key(path)?).or_insert(Value::Null);
    }
    Ok(wanted)
}

/// Returns the key of a file in a Secret.
fn key(path: &str) -> anyhow::Result<String> {
    if path.contains(SEPARATOR) {
        bail!("{path:?} cannot be in a Secret: {SEPARATOR:?} stands for a slash there");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/');
    ensure!(path.chars().all(allowed), "{path:?} cannot be in a Secret, whose keys have letters, digits and -._ only");
    Ok(path.replace('/', &SEPARATOR.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_holds_a_folder_and_gives_it_back() {
        let files: Files = [("nats/ca.crt".to_owned(), b"a".to_vec()), ("kubeconfig".to_owned(), vec![0, 255])].into();
        let data = data(&files).unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["kubeconfig", "nats_ca.crt"]);
        let secret = json!({"metadata": {"resourceVersion": "7"}, "data": data}).to_string();
        let found = present(secret.as_bytes()).unwrap();
        assert_eq!((found.files, found.revision.as_str()), (files, "7"));
        assert!(present(br#"{"metadata":{"resourceVersion":"1"},"data":{"a":"?"}}"#).is_err());
        assert!(present(br#"{"metadata":{"resourceVersion":"1"}}"#).unwrap().files.is_empty());
    }

    #[test]
    fn a_file_that_is_no_longer_wanted_is_removed() {
        let present: Files = [("a/b".to_owned(), b"old".to_vec()), ("c".to_owned(), b"old".to_vec())].into();
        let wanted = data(&[("c".to_owned(), b"new".to_vec())].into()).unwrap();
        assert_eq!(Value::Object(changes(&present, wanted).unwrap()), json!({"a_b": null, "c": "bmV3"}));
    }

    #[test]
    fn a_path_that_two_keys_could_stand_for_is_refused() {
        for bad in ["a_b", "a b", "ä"] {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert_eq!(key("a/b-c.d").unwrap(), "a_b-c.d");
    }
}
