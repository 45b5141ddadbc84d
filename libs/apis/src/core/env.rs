//! Validates environment variables and their sources.

use oarlock_meta::names::label_key_errors;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{EnvVar, ObjectFieldSelector, ResourceFieldSelector};

use crate::rules::{each, formats, qualified, required, subdomain};

/// The pod fields that an environment variable can show.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The container resources that an environment variable can show.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates like upstream's `ValidateEnv`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let var = EnvVar::new(node);
    let name = path.child("name");
    if var.name().is_empty() {
        errors.push(FieldError::required(&name, ""));
    } else {
        each(formats::env_name(var.name()), var.name(), &name, errors);
    }
    let Some(source) = var.value_from() else { return };
    let at = path.child("valueFrom");
    let mut sources = 0;
    if let Some(field) = source.field_ref() {
        sources += 1;
        field_ref(field, FIELDS, &at.child("fieldRef"), errors);
    }
    if let Some(resource) = source.resource_field_ref() {
        sources += 1;
        resource_ref(resource, false, &at.child("resourceFieldRef"), errors);
    }
    if let Some(key) = source.config_map_key_ref() {
        sources += 1;
        key_ref(key.name(), key.key(), &at.child("configMapKeyRef"), errors);
    }
    if let Some(key) = source.secret_key_ref() {
        sources += 1;
        key_ref(key.name(), key.key(), &at.child("secretKeyRef"), errors);
    }
    sources += usize::from(source.file_key_ref().is_some());
    if sources == 0 {
        let text =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.push(FieldError::invalid(&at, "", text));
    } else if !var.value().is_empty() {
        errors.push(FieldError::invalid(&at, "", "may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(FieldError::invalid(&at, "", "may not have more than one field specified at a time"));
    }
}

fn key_ref(name: &str, key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    subdomain(name, &path.child("name"), errors);
    if key.is_empty() {
        required(key, &path.child("key"), errors);
    } else {
        each(formats::config_key(key), key, &path.child("key"), errors);
    }
}

/// Validates a reference to a field of the pod (upstream `validateObjectFieldSelector`); `fields` are the fields allowed without a subscript.
pub(super) fn field_ref(selector: ObjectFieldSelector<'_>, fields: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("fieldPath");
    let text = selector.field_path();
    if text.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    if selector.api_version() != "v1" {
        let version = selector.api_version();
        let text_error = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.push(FieldError::invalid(&at, text, text_error));
        return;
    }
    if let Some((field, key)) = subscript(text) {
        match field {
            "metadata.annotations" => {
                let key = key.to_ascii_lowercase();
                each(label_key_errors(&key), key.as_str(), path, errors);
            }
            "metadata.labels" => qualified(key, path, errors),
            _ => {
                let text_error = format!("error converting fieldPath: field label does not support subscript: {text}");
                errors.push(FieldError::invalid(&at, text, text_error));
            }
        }
        return;
    }
    let known = FIELDS.contains(&text)
        || matches!(
            text,
            "metadata.annotations"
                | "metadata.labels"
                | "spec.restartPolicy"
                | "spec.schedulerName"
                | "status.phase"
                | "spec.hostNetwork"
        );
    if !known {
        errors.push(FieldError::invalid(
            &at,
            text,
            format!("error converting fieldPath: field label not supported: {text}"),
        ));
    } else if !fields.contains(&text) {
        errors.push(FieldError::not_supported(&at, text, fields));
    }
}

/// Splits `metadata.labels['key']` into the field and the key.
fn subscript(text: &str) -> Option<(&str, &str)> {
    let (field, rest) = text.split_once("['")?;
    Some((field, rest.strip_suffix("']")?)).filter(|(field, _)| !field.is_empty())
}

/// Validates a reference to a container's resource (upstream `validateContainerResourceFieldSelector`); with `named` the container name is required.
pub(super) fn resource_ref(selector: ResourceFieldSelector<'_>, named: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let resource = selector.resource();
    if named && selector.container_name().is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge(resource) {
        errors.push(FieldError::not_supported(&path.child("resource"), resource, RESOURCES));
    }
    let divisor = selector.divisor();
    if matches!(divisor, "" | "0") {
        return;
    }
    let (allowed, what) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"][..], "cpu resource"),
        "limits.memory" | "requests.memory" => (BYTE_DIVISORS, "memory resource"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (BYTE_DIVISORS, "local ephemeral storage resource")
        }
        other if huge(other) => (BYTE_DIVISORS, "hugepages resource"),
        _ => return,
    };
    if !allowed.contains(&divisor) {
        let list = if allowed.len() == 2 { "1m and 1".to_owned() } else { allowed.join(", ") };
        let text = format!("only divisor's values {list} are supported with the {what}");
        errors.push(FieldError::invalid(&path.child("divisor"), resource, text));
    }
}

fn huge(resource: &str) -> bool {
    resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-")
}
