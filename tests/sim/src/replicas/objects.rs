//! The written objects: two resources in one namespace, each object marked by its write.

use oarlock_check::history::Labels;
use oarlock_client::{Object, decode};
use oarlock_meta::LabelSelector;
use oarlock_schema::{Obj, Resource, resource};
use oarlock_testkit::history::{WRITE_ANNOTATION, body};
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "default";
pub(super) const PLURALS: [&str; 2] = ["configmaps", "secrets"];

/// Returns the prefix of a resource's keys: `configmaps/default/`.
pub(super) fn prefix(plural: &str) -> String {
    format!("{plural}/{NAMESPACE}/")
}

/// Returns the row of a resource of the core group.
pub(super) fn row(plural: &str) -> &'static Resource {
    resource("", "v1", plural).unwrap()
}

/// Returns an object's JSON and its hash.
pub(super) fn read(object: &Object) -> (Value, String) {
    let value: Value = serde_json::from_slice(&object.bytes).unwrap();
    let hash = body(&value);
    (value, hash)
}

/// Returns the labels that the selector of selective watches and lists matches.
pub(super) fn gold() -> Labels {
    Labels::from([("tier".to_owned(), "gold".to_owned())])
}

/// Returns the selector that matches these labels.
pub(super) fn selector(labels: &Labels) -> LabelSelector {
    let text: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    LabelSelector::parse(&text.join(",")).unwrap()
}

/// Makes an object; `revision` is the revision that an update replaces.
pub(super) fn object(plural: &str, name: &str, tag: &str, tier: &str, revision: Option<u64>) -> Obj {
    let mut object = if plural == "configmaps" { json!({"data": {"value": tag}}) } else { json!({}) };
    object["metadata"] = metadata(tag, tier, revision);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(NAMESPACE);
    decode(row(plural).ty, object.to_string().as_bytes()).unwrap()
}

/// Makes metadata with the tag that identifies the write and the label that selectors match.
pub(super) fn metadata(tag: &str, tier: &str, revision: Option<u64>) -> Value {
    let mut metadata = json!({"labels": {"tier": tier}, "annotations": {WRITE_ANNOTATION: tag}});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = json!(revision.to_string());
    }
    metadata
}
