//! Reads of the current state from the View, for the server's own decisions (admission, authorization).

use std::sync::Arc;

use oarlock_schema::{Obj, Resource};
use oarlock_store::{Entry, ReadError, View};

use crate::{index, key};

/// Reads objects of any kind from the View, in their stored version.
#[derive(Clone, Debug)]
pub struct Reader {
    view: View,
}

impl Reader {
    /// Creates a reader of this View.
    #[must_use]
    pub fn new(view: View) -> Self {
        Self { view }
    }

    /// Returns the View.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the current entry of an object.
    #[must_use]
    pub fn entry(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.view.get(&key::key(resource, namespace, name)?)
    }

    /// Returns a decoded object of a kind that is never cold. `None` also when the stored bytes do not decode, which is logged when they are loaded.
    #[must_use]
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Obj> {
        decode(resource, self.entry(resource, namespace, name)?.as_ref())
    }

    /// Returns a decoded object of a kind that may be cold ([`crate::cold`]).
    ///
    /// # Errors
    /// Errors of reading the log.
    pub async fn fetch(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Option<Obj>, ReadError> {
        let Some(key) = key::key(resource, namespace, name) else { return Ok(None) };
        Ok(self.view.get_ready(&key).await?.and_then(|entry| decode(resource, &entry)))
    }

    /// Returns all objects of a resource, or of one namespace.
    #[must_use]
    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Obj> {
        let Some(prefix) = key::prefix(resource) else { return Vec::new() };
        let snapshot = self.view.list(prefix);
        snapshot.range(namespace, "").filter_map(|entry| decode(resource, entry)).collect()
    }
}

/// Decodes an entry in its stored version.
#[must_use]
pub fn decode(resource: &Resource, entry: &Entry) -> Option<Obj> {
    index::decode(entry.bytes()?, index::stored_type(resource)).ok()
}
