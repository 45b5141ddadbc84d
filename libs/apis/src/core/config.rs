//! Validation of ConfigMap and Secret: keys, size, types, immutability.

use oarlock_codec::{Mode, json};
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{ConfigMap, Secret};
use oarlock_schema::{Struct, Value};

use crate::rules::{IMMUTABLE, each, formats};

/// The most bytes of all values of an object together.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;

/// Validates like upstream's `ValidateConfigMap`.
pub fn validate_config_map(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let map = ConfigMap::new(node);
    let mut size = 0;
    for (key, value) in map.data().iter() {
        let at = path.child("data");
        each(formats::config_key(key), key, &at.key(key), errors);
        if map.binary_data().get(key).is_some() {
            errors.push(FieldError::invalid(&at.key(key), key, "duplicate of key present in binaryData"));
        }
        size += value.len();
    }
    for (key, value) in map.binary_data().iter() {
        each(formats::config_key(key), key, &path.child("binaryData").key(key), errors);
        size += decoded(value);
    }
    if size > MAX_TOTAL_BYTES {
        // Upstream builds the error's path from an empty name.
        errors.push(FieldError::too_long(&Path::new("[]"), MAX_TOTAL_BYTES));
    }
}

/// Returns the decoded length of a base64 text in bytes.
fn decoded(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// Validates like upstream's `ValidateSecret`.
pub fn validate_secret(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let secret = Secret::new(node);
    let data = path.child("data");
    let mut size = 0;
    for (key, value) in secret.data().iter() {
        each(formats::config_key(key), key, &data.key(key), errors);
        size += decoded(value);
    }
    if size > MAX_TOTAL_BYTES {
        errors.push(FieldError::too_long(&data, MAX_TOTAL_BYTES));
    }
    let need = |key: &str, errors: &mut ErrorList| {
        if secret.data().get(key).is_none() {
            errors.push(FieldError::required(&data.key(key), ""));
        }
    };
    match secret.type_() {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if secret.metadata().annotations().get(name).is_none_or(str::is_empty) {
                let at = path.child("metadata");
                errors.push(FieldError::required(&at.child("annotations").key(name), ""));
            }
        }
        "kubernetes.io/dockercfg" => docker(secret, ".dockercfg", &data, errors),
        "kubernetes.io/dockerconfigjson" => docker(secret, ".dockerconfigjson", &data, errors),
        "kubernetes.io/basic-auth"
            if secret.data().get("username").is_none() && secret.data().get("password").is_none() =>
        {
            need("username", errors);
            need("password", errors);
        }
        "kubernetes.io/ssh-auth" if secret.data().get("ssh-privatekey").is_none_or(str::is_empty) => {
            errors.push(FieldError::required(&data.key("ssh-privatekey"), ""));
        }
        "kubernetes.io/tls" => {
            need("tls.crt", errors);
            need("tls.key", errors);
        }
        _ => {}
    }
}

fn docker(secret: Secret<'_>, key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    use base64::Engine as _;
    let Some(text) = secret.data().get(key) else {
        errors.push(FieldError::required(&path.key(key), ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    if let Err(text) = is_map(&bytes) {
        errors.push(FieldError::invalid(&path.key(key), "<secret contents redacted>", text));
    }
}

/// Checks that a text is a JSON object, or `null`, which Go reads as an empty map.
///
/// # Errors
/// The text of Go's parser.
fn is_map(bytes: &[u8]) -> Result<(), String> {
    let kind = match json::decode_value(bytes, Mode::Lenient).map_err(|error| error.to_string())?.value {
        Value::Map(_) | Value::Null => return Ok(()),
        Value::List(_) => "array",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

/// Validates that an immutable object stays unchanged and immutable (upstream `ValidateConfigMapUpdate`, `ValidateSecretUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if old.get("immutable").and_then(Value::as_bool) != Some(true) {
        return;
    }
    let text = format!("{IMMUTABLE} when `immutable` is set");
    if new.get("immutable").and_then(Value::as_bool) != Some(true) {
        errors.push(FieldError::forbidden(&path.child("immutable"), text.as_str()));
    }
    for field in ["data", "binaryData"] {
        if new.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(&path.child(field), text.as_str()));
        }
    }
}
