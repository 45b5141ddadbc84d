//! Conversion of objects that upstream stores in an older version with another form: CustomResourceDefinitions in v1beta1 (kubernetes
//! `apiextensions-apiserver`, `pkg/apis/apiextensions/v1beta1`, whose conversion this follows in meaning).

use bytes::Bytes;
use oarlock_schema::Resource;
use serde_json::{Map, Value};

const OLD_VERSION: &[u8] = b"\"apiextensions.k8s.io/v1beta1\"";
const NEW_VERSION: &str = "apiextensions.k8s.io/v1";
/// How many bytes are searched for the version, which follows the kind at the start of a value.
const VERSION_SEARCH_BYTES: usize = 128;

/// Returns the value in the served form; `None` when it has that form already.
pub(crate) fn renewed(resource: &Resource, value: &Bytes) -> Option<Bytes> {
    if resource.plural != "customresourcedefinitions" {
        return None;
    }
    let front = value.get(..value.len().min(VERSION_SEARCH_BYTES))?;
    front.windows(OLD_VERSION.len()).find(|text| *text == OLD_VERSION)?;
    let mut whole: Value = serde_json::from_slice(value).ok()?;
    let object = whole.as_object_mut()?;
    object.insert("apiVersion".to_owned(), NEW_VERSION.into());
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        renew(spec);
    }
    serde_json::to_vec(&whole).ok().map(Bytes::from)
}

/// Moves the fields shared by all versions into each version, and removes the field of the single version.
fn renew(spec: &mut Map<String, Value>) {
    let shared = [
        ("schema", spec.remove("validation")),
        ("subresources", spec.remove("subresources")),
        ("additionalPrinterColumns", spec.remove("additionalPrinterColumns")),
        ("selectableFields", spec.remove("selectableFields")),
    ];
    let only = spec.remove("version");
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    if let (None, Some(name)) = (spec.get("versions"), only) {
        spec.insert("versions".to_owned(), serde_json::json!([{"name": name, "served": true, "storage": true}]));
    }
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(version) = version.as_object_mut() else { continue };
        for (field, value) in &shared {
            if let Some(value) = value {
                version.entry(*field).or_insert_with(|| value.clone());
            }
        }
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(path) = column.remove("JSONPath") {
                column.insert("jsonPath".to_owned(), path);
            }
        }
    }
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else { return };
    let webhook = [
        ("clientConfig", conversion.remove("webhookClientConfig")),
        ("conversionReviewVersions", conversion.remove("conversionReviewVersions")),
    ];
    let webhook: Map<String, Value> =
        webhook.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect();
    if webhook.contains_key("clientConfig") {
        conversion.insert("webhook".to_owned(), Value::Object(webhook));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_definition_becomes_a_new_one() {
        let old = serde_json::json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
            "spec": {
                "group": "example.com", "version": "v1", "preserveUnknownFields": false,
                "names": {"plural": "fulls", "kind": "Full"},
                "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v0", "schema": {"own": 1}}],
                "validation": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "R", "type": "integer", "JSONPath": ".spec.replicas"}],
                "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]},
            },
        });
        let resource = oarlock_schema::resource("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        let new = renewed(resource, &Bytes::from(old.to_string())).unwrap();
        let columns = serde_json::json!([{"name": "R", "type": "integer", "jsonPath": ".spec.replicas"}]);
        let wanted = serde_json::json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "spec": {
                "group": "example.com", "names": {"plural": "fulls", "kind": "Full"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                     "subresources": {"status": {}}, "additionalPrinterColumns": columns},
                    {"name": "v0", "schema": {"own": 1}, "subresources": {"status": {}}, "additionalPrinterColumns": columns},
                ],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]}},
            },
        });
        assert_eq!(serde_json::from_slice::<Value>(&new).unwrap(), wanted);
        assert!(renewed(resource, &new).is_none());
    }
}
