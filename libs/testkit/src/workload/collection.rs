//! Collections of a workload: objects of one kind in one namespace.

use serde_json::{Value, json};

use crate::history::WRITE_ANNOTATION;

/// Objects of one kind in one namespace.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Plural name of the resource, such as `configmaps`.
    plural: &'static str,
    namespace: String,
    /// Returns the fields of a new object besides its metadata.
    rest: fn(&str) -> Value,
    /// Whether an update may replace the whole object by the fields of a new one.
    replaceable: bool,
}

impl Collection {
    /// A collection of ConfigMaps.
    #[must_use]
    pub fn config_maps(namespace: &str) -> Self {
        let rest = |tag: &str| json!({"data": {"value": tag, "ballast": "x".repeat(tag.len() * 37 % 2048)}});
        Self { plural: "configmaps", namespace: namespace.to_owned(), rest, replaceable: true }
    }

    /// A collection of Secrets, which no controller writes.
    #[must_use]
    pub fn secrets(namespace: &str) -> Self {
        let rest = |tag: &str| json!({"stringData": {"value": tag}});
        Self { plural: "secrets", namespace: namespace.to_owned(), rest, replaceable: true }
    }

    /// A collection of Pods that no node runs. Their namespace must have a ServiceAccount `default`.
    #[must_use]
    pub fn pods(namespace: &str) -> Self {
        let rest = |_: &str| {
            let container = json!({"name": "c", "image": "registry.k8s.io/pause:3.10"});
            json!({"spec": {"automountServiceAccountToken": false, "containers": [container]}})
        };
        Self { plural: "pods", namespace: namespace.to_owned(), rest, replaceable: false }
    }

    /// Returns the prefix of the objects' keys, such as `configmaps/default/`.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}/{}/", self.plural, self.namespace)
    }

    pub(super) fn plural(&self) -> &'static str {
        self.plural
    }

    pub(super) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/{}", self.namespace, self.plural)
    }

    pub(super) fn replaceable(&self) -> bool {
        self.replaceable
    }

    /// Builds an object to create or to replace an existing one.
    pub(super) fn object(&self, name: &str, tag: &str, tier: &str, revision: Option<u64>) -> Value {
        let mut object = (self.rest)(tag);
        object["metadata"] = metadata(tag, tier, revision);
        object["metadata"]["name"] = json!(name);
        object
    }

    /// Builds a merge patch that changes an object.
    pub(super) fn patch(tag: &str, tier: &str, revision: Option<u64>) -> Value {
        json!({"metadata": metadata(tag, tier, revision)})
    }
}

fn metadata(tag: &str, tier: &str, revision: Option<u64>) -> Value {
    let mut metadata = json!({"labels": {"tier": tier}, "annotations": {WRITE_ANNOTATION: tag}});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = json!(revision.to_string());
    }
    metadata
}
