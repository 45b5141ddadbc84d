//! Go's converter from generic to typed objects (`runtime.DefaultUnstructuredConverter`), which decodes the results of strategic patches and of applies.

use oarlock_codec::{DecodeError, Decoded, Mode, tree};
use oarlock_schema::{Obj, Shape, TypeRef, Value};

use crate::errors::json_kind;

/// Types a document as the converter does: a field of 32 bits gets the lower 32 bits of a larger whole number.
pub(crate) fn typed(doc: &Value, ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, DecodeError> {
    tree::type_value(doc, ty, mode).or_else(|error| {
        let mut doc = doc.clone();
        if truncate(&mut doc, &Shape::Struct(ty)) { tree::type_value(&doc, ty, mode) } else { Err(error) }
    })
}

/// Truncates the whole numbers that their fields of 32 bits cannot hold; returns whether there were any.
fn truncate(found: &mut Value, shape: &Shape) -> bool {
    let mut truncated = false;
    match (shape, found) {
        (Shape::Struct(ty), Value::Map(fields)) => {
            for (_, def) in ty.iter() {
                truncated |= fields.get_mut(def.name).is_some_and(|field| truncate(field, &def.shape));
            }
        }
        (Shape::Map(inner), Value::Map(entries)) => {
            entries.iter_mut().for_each(|(_, entry)| truncated |= truncate(entry, inner));
        }
        (Shape::List(inner), Value::List(items)) => {
            items.iter_mut().for_each(|item| truncated |= truncate(item, inner));
        }
        (Shape::Int32, Value::Int(number)) => {
            let lower = i64::from(*number as i32);
            truncated = *number != lower;
            *number = lower;
        }
        _ => {}
    }
    truncated
}

/// Returns the converter's error for a document that [`typed`] refuses with `error`.
pub(crate) fn refusal(doc: &Value, ty: TypeRef, error: &DecodeError) -> String {
    failure(doc, ty).unwrap_or_else(|| {
        let text = error.to_string();
        // The converter decodes bytes, and no other text, with a decoder of JSON of its own.
        if text.starts_with("illegal base64 data") { format!("error decoding from json: {text}") } else { text }
    })
}

/// Returns the converter's error for the first value, in the order of Go's fields, that does not convert to the type of its field. `None` when there is no such
/// value: then a text that its type parses is invalid, and the error is the type's own.
fn failure(doc: &Value, ty: TypeRef) -> Option<String> {
    let fields = match doc {
        Value::Null => return None,
        Value::Map(fields) => fields,
        other => return Some(format!("cannot restore struct from: {}", go_kind(other))),
    };
    ty.iter().find_map(|(_, def)| value(fields.get(def.name)?, &def.shape))
}

fn value(found: &Value, shape: &Shape) -> Option<String> {
    match (shape, found) {
        (_, Value::Null) => None,
        (Shape::Struct(ty), found) => failure(found, ty),
        (Shape::Map(inner), Value::Map(entries)) => entries.iter().find_map(|(_, entry)| value(entry, inner)),
        (Shape::Map(_), found) => Some(format!("cannot restore map from {}", go_kind(found))),
        (Shape::List(inner), Value::List(items)) => items.iter().find_map(|item| value(item, inner)),
        (Shape::Bytes, Value::Str(_)) => None,
        (Shape::List(_) | Shape::Bytes, found) => Some(format!("cannot restore slice from {}", go_kind(found))),
        (Shape::Bool, found) => scalar(found, "bool"),
        (Shape::Int32, found) => scalar(found, "int32"),
        (Shape::Int64, found) => scalar(found, "int64"),
        (Shape::Float64, found) => scalar(found, "float64"),
        (Shape::Str, found) => scalar(found, "string"),
        (Shape::IntOrString, Value::Str(_) | Value::Int(_)) | (Shape::Time | Shape::MicroTime, Value::Str(_)) => None,
        (Shape::IntOrString, found) => Some(undecodable(found, "int32")),
        (Shape::Time | Shape::MicroTime, found) => Some(undecodable(found, "string")),
        // The other types decode themselves.
        _ => None,
    }
}

/// Returns the error of a type that decodes itself from JSON of one kind and has found another.
fn undecodable(found: &Value, wanted: &str) -> String {
    let kind = json_kind(found);
    match found {
        Value::Number(text) if wanted == "int32" => {
            format!("json: cannot unmarshal {kind} {text} into Go value of type {wanted}")
        }
        _ => format!("json: cannot unmarshal {kind} into Go value of type {wanted}"),
    }
}

/// Returns the error for a value in a field of a simple type. Go distinguishes values that its conversions change (a number into text) from those without any
/// conversion.
fn scalar(found: &Value, wanted: &'static str) -> Option<String> {
    let number = matches!(wanted, "int32" | "int64" | "float64");
    match found {
        Value::Bool(_) if wanted == "bool" => None,
        Value::Str(_) if wanted == "string" => None,
        Value::Int(_) if number => None,
        Value::Number(text) if number => {
            let whole = text.parse::<f64>().is_ok_and(|n| n.fract() == 0.0);
            (!whole && wanted != "float64").then(|| format!("cannot convert float64 to {wanted}"))
        }
        Value::Int(_) if wanted == "string" => Some("cannot convert int64 to string".to_owned()),
        _ => Some(format!("unrecognized type: {wanted}")),
    }
}

/// Returns the name of the Go kind of a generic value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Number(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) | Value::Struct(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::{Value, type_named};

    use super::{failure, refusal, typed};

    fn read(text: &str) -> Value {
        json::decode_value(text.as_bytes(), Mode::Lenient).unwrap().value
    }

    #[test]
    fn a_field_of_32_bits_gets_the_lower_bits_of_a_larger_number() {
        let doc = r#"{"spec": {"replicas": 99999999999, "template": {"spec": {"terminationGracePeriodSeconds": 99999999999,
            "containers": [{"name": "a", "ports": [{"containerPort": -4294967295}]}]}}}}"#;
        let typed = |text| typed(&read(text), type_named("apps/v1.Deployment").unwrap(), Mode::Strict);
        let obj = typed(doc).unwrap().value;
        // A live v1.35.0 server stores this number.
        assert_eq!(obj.at(&["spec", "replicas"]), Some(&Value::Int(1_215_752_191)));
        let pod = ["spec", "template", "spec"];
        let grace = obj.at(&[&pod[..], &["terminationGracePeriodSeconds"]].concat());
        assert_eq!(grace, Some(&Value::Int(99_999_999_999)), "a field of 64 bits");
        let containers = obj.at(&[&pod[..], &["containers"]].concat()).unwrap().items();
        let port = containers[0].get("ports").unwrap().items()[0].get("containerPort");
        assert_eq!(port, Some(&Value::Int(1)));
        assert!(typed(r#"{"spec": {"replicas": "99999999999"}}"#).is_err(), "a text is no number");
    }

    /// Each text is a live v1.35.0 server's answer to a strategic patch.
    #[test]
    fn values_that_do_not_fit_are_refused_in_the_converters_words() {
        for (kind, patch, text) in [
            ("core/v1.ConfigMap", r#"{"data": {"a": 1}}"#, "cannot convert int64 to string"),
            ("core/v1.ConfigMap", r#"{"metadata": {"labels": "text"}}"#, "cannot restore map from string"),
            ("apps/v1.Deployment", r#"{"spec": {"replicas": "two"}}"#, "unrecognized type: int32"),
            ("apps/v1.Deployment", r#"{"spec": {"replicas": 1.5}}"#, "cannot convert float64 to int32"),
            ("apps/v1.Deployment", r#"{"spec": {"template": "x"}}"#, "cannot restore struct from: string"),
            (
                "apps/v1.Deployment",
                r#"{"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}"#,
                "json: cannot unmarshal bool into Go value of type int32",
            ),
        ] {
            let doc = read(patch);
            assert_eq!(failure(&doc, type_named(kind).unwrap()).as_deref(), Some(text), "{patch}");
        }
    }

    #[test]
    fn texts_that_their_types_refuse_have_errors_of_their_own() {
        let patch = r#"{"spec": {"strategy": {"rollingUpdate": {"maxSurge": "x"}}}, "metadata": {"creationTimestamp": "yesterday"}}"#;
        let doc = read(patch);
        assert_eq!(failure(&doc, type_named("apps/v1.Deployment").unwrap()), None);
    }

    /// Each text is a part of a live v1.35.0 server's answer to an apply.
    #[test]
    fn a_refused_document_is_described_as_by_the_converter() {
        for (kind, doc, text) in [
            (
                "core/v1.Secret",
                r#"{"data": {"a": "%%%"}}"#,
                "error decoding from json: illegal base64 data at input byte 0",
            ),
            (
                "core/v1.Pod",
                r#"{"spec": {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": true}}}]}}"#,
                "json: cannot unmarshal bool into Go value of type int32",
            ),
            (
                "batch/v1.Job",
                r#"{"status": {"startTime": "x"}}"#,
                "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
            ),
        ] {
            let (doc, ty) = (read(doc), type_named(kind).unwrap());
            let error = typed(&doc, ty, Mode::Lenient).unwrap_err();
            assert_eq!(refusal(&doc, ty, &error), text, "{kind}");
        }
    }
}
