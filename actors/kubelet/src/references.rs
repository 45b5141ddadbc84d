//! Reads the objects that pods refer to, as the node: ConfigMaps and Secrets ([`Objects`]), tokens of ServiceAccounts ([`Tokens`]).
//!
//! The Node authorizer lets a node read only the objects that its pods name, one by one. Every call has a deadline, and every cache a size limit.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oarlock_client::Client;
use oarlock_meta::Status;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{ConfigMap, Pod, Secret};
use oarlock_schema::{Obj, Str};

mod named;
mod objects;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use named::{named_by, of_volume};
use objects::Objects;
use tokens::Tokens;

use crate::pod_error::PodError;
pub(crate) use tokens::{DEFAULT_LIFETIME_SECONDS, TokenWish};

/// Kind of a referenced object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
    /// A PersistentVolumeClaim of the pod's namespace.
    Claim,
    /// A PersistentVolume, which has no namespace.
    Volume,
}

impl Kind {
    /// Returns the kind's name in error texts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
        }
    }
}

/// A reference to an object, in the pod's namespace unless its kind has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reference {
    pub(crate) kind: Kind,
    pub(crate) name: Str,
}

impl Reference {
    pub(crate) fn config_map(name: &str) -> Self {
        Self { kind: Kind::ConfigMap, name: name.into() }
    }

    pub(crate) fn secret(name: &str) -> Self {
        Self { kind: Kind::Secret, name: name.into() }
    }
}

/// Results of looking up references, and the variable files read from volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    objects: BTreeMap<Reference, Result<Arc<Obj>, Status>>,
    files: BTreeMap<(Str, Str), ReadFile>,
}

/// Path of a file on the node, and its text or the error of reading it.
pub(crate) type ReadFile = (PathBuf, Result<String, PodError>);

impl Found {
    #[cfg(test)]
    pub(crate) fn insert(&mut self, reference: Reference, object: Result<Arc<Obj>, Status>) {
        self.objects.insert(reference, object);
    }

    /// Adds a file of a volume ([`crate::volumes::Volumes::read`]).
    pub(crate) fn insert_file(&mut self, at: (Str, Str), file: ReadFile) {
        self.files.insert(at, file);
    }

    /// Returns a file of a volume, if the volume exists.
    pub(crate) fn file(&self, volume: &str, path: &str) -> Option<&ReadFile> {
        self.files.get(&(volume.into(), path.into()))
    }

    /// Returns the data of a ConfigMap or Secret; `None` for a missing optional object.
    ///
    /// # Errors
    /// When the object cannot be read; the server's text.
    pub(crate) fn data(&self, reference: &Reference, optional: bool) -> Result<Option<Data<'_>>, PodError> {
        match self.objects.get_key_value(reference) {
            Some((known, Ok(object))) => Ok(Some(Data::of(known, object))),
            Some((_, Err(status))) if optional && status.is_not_found() => Ok(None),
            Some((_, Err(status))) => Err(PodError::NotReady(status.to_string())),
            None => Err(PodError::NotReady(format!(
                "{} {} was needed and nobody asked for it",
                reference.kind.name(),
                reference.name
            ))),
        }
    }
}

/// Data of a ConfigMap or Secret.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data<'a> {
    ConfigMap(ConfigMap<'a>),
    Secret(&'a str, Secret<'a>),
}

impl<'a> Data<'a> {
    fn of(reference: &'a Reference, object: &'a Obj) -> Self {
        match reference.kind {
            Kind::Secret => {
                Self::Secret(reference.name.as_str(), Secret::of(object).unwrap_or_else(|| Secret::from_option(None)))
            }
            _ => Self::ConfigMap(ConfigMap::of(object).unwrap_or_else(|| ConfigMap::from_option(None))),
        }
    }

    /// Returns all keys with texts, for environments. Binary data of a ConfigMap are left out; bytes of a Secret that are not UTF-8 are an error.
    pub(crate) fn texts(self) -> Vec<(&'a str, Result<String, PodError>)> {
        match self {
            Self::ConfigMap(map) => map.data().iter().map(|(key, value)| (key, Ok(value.to_owned()))).collect(),
            Self::Secret(name, secret) => {
                secret.data().iter().map(|(key, value)| (key, decoded_text(name, key, value))).collect()
            }
        }
    }

    /// Returns the text of a key, if the key exists.
    pub(crate) fn text(self, key: &str) -> Option<Result<String, PodError>> {
        match self {
            Self::ConfigMap(map) => map.data().get(key).map(|value| Ok(value.to_owned())),
            Self::Secret(name, secret) => secret.data().get(key).map(|value| decoded_text(name, key, value)),
        }
    }

    /// Returns all keys with their bytes, for volumes.
    pub(crate) fn files(self) -> Vec<(&'a str, Vec<u8>)> {
        let decode = |(key, value): (&'a str, &str)| (key, STANDARD.decode(value).unwrap_or_default());
        match self {
            Self::ConfigMap(map) => {
                let texts = map.data().iter().map(|(key, value)| (key, value.as_bytes().to_vec()));
                texts.chain(map.binary_data().iter().map(decode)).collect()
            }
            Self::Secret(_, secret) => secret.data().iter().map(decode).collect(),
        }
    }
}

fn decoded_text(secret: &str, key: &str, value: &str) -> Result<String, PodError> {
    // The API server accepts only valid base64.
    let bytes = STANDARD.decode(value).unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| PodError::NotReady(format!("key {key} of Secret {secret} is not UTF-8")))
}

/// Reader of the objects and tokens that a node's pods refer to. Clones share its caches.
#[derive(Clone, Debug)]
pub(crate) struct References {
    objects: Arc<Objects>,
    tokens: Arc<Tokens>,
}

impl References {
    /// Creates a reader. `client` must have the node's identity. A cached object older than `fresh` is read again.
    pub(crate) fn new(client: Client, fresh: Duration) -> Self {
        Self { objects: Arc::new(Objects::new(client.clone(), fresh)), tokens: Arc::new(Tokens::new(client)) }
    }

    /// Registers a new pod on the node, so that the objects it refers to are read again instead of taken from the cache.
    pub(crate) fn registered(&self, pod: Pod<'_>) {
        let namespace = pod.metadata().namespace();
        for reference in named_by(pod) {
            self.objects.forget(namespace, &reference);
        }
    }

    /// Drops the cached tokens of a removed pod.
    pub(crate) fn forget_pod(&self, uid: &str) {
        self.tokens.forget(uid);
    }

    /// Looks up objects of a namespace concurrently; each lookup has its own deadline.
    pub(crate) async fn find(&self, namespace: &str, wanted: impl IntoIterator<Item = Reference>) -> Found {
        let calls = wanted.into_iter().map(|reference| async move {
            let object = self.objects.get(namespace, &reference).await;
            (reference, object)
        });
        Found { objects: futures::future::join_all(calls).await.into_iter().collect(), ..Found::default() }
    }

    /// Reads one object from the API, bypassing the cache.
    ///
    /// # Errors
    /// When the call fails; the server's Status.
    pub(crate) async fn fresh(&self, namespace: &str, wanted: &Reference) -> Result<Arc<Obj>, Status> {
        self.objects.forget(namespace, wanted);
        self.objects.get(namespace, wanted).await
    }

    /// Returns a token of a pod's ServiceAccount, from the cache unless the token must be renewed.
    ///
    /// # Errors
    /// When no valid token can be had; upstream's text.
    pub(crate) async fn token(&self, wish: &TokenWish) -> Result<Arc<str>, PodError> {
        self.tokens.get(wish).await
    }
}
