//! Odd bodies: explicit nulls, empty values and zeros, unknown and duplicate fields, wrong types, bad enumerations, broken text. All are dry runs.

use oarlock_schema::{FieldDef, Shape, TypeRef};
use serde_json::{Value, json};

use super::{Subject, fill, name, with};
use crate::case::Step;

/// The most bad values of enumerations for each resource.
const ENUMS: usize = 4;

pub(super) fn odd(subject: &Subject) -> Vec<Step> {
    if !subject.has("create") {
        return Vec::new();
    }
    let dry = |id: &str, query: &str| Step::new(id, format!("POST {{list}}?dryRun=All{query}"));
    let fresh = with(&subject.minimal, json!({"metadata": {"labels": {"oracle": "dry"}}}));
    // A fresh name, for kinds whose names are free.
    let fresh = if name(&fresh) == "minimal" { with(&fresh, json!({"metadata": {"name": "fresh"}})) } else { fresh };
    let ty = subject.resource.ty;
    let mut steps = vec![
        dry("create-nulls", "").body(filled(ty, &fresh, &|_| Some(Value::Null))),
        dry("create-empties", "").body(filled(ty, &fresh, &empty)),
        dry("create-zeros", "").body(filled(ty, &fresh, &|field| zero(field, false))),
        dry("create-zero-pointers", "").body(filled(ty, &fresh, &|field| zero(field, true))),
        dry("create-generate-name", "")
            .body(with(&fresh, json!({"metadata": {"name": null, "generateName": "some-"}}))),
        dry("create-no-name", "").body(with(&fresh, json!({"metadata": {"name": null}}))),
        dry("create-bad-name", "").body(with(&fresh, json!({"metadata": {"name": "Bad_Name/"}}))),
        dry("create-bad-labels", "")
            .body(with(&fresh, json!({"metadata": {"labels": {"-a": "-b"}, "annotations": {"a b": "c"}}}))),
        dry("create-other-namespace", "").body(with(&fresh, json!({"metadata": {"namespace": "elsewhere"}}))),
        dry("create-with-revision", "").body(with(&fresh, json!({"metadata": {"resourceVersion": "5"}}))),
        dry("create-other-kind", "").body(with(&fresh, json!({"kind": "Oracle"}))),
        dry("create-other-version", "").body(with(&fresh, json!({"apiVersion": "oracle/v1"}))),
        dry("create-no-kind", "").body(with(&fresh, json!({"kind": null, "apiVersion": null}))),
        dry("create-wrong-labels", "").body(with(&fresh, json!({"metadata": {"labels": {"a": 1}}}))),
        dry("create-wrong-metadata", "").body(with(&fresh, json!({"metadata": "text"}))),
        dry("create-list", "").body(json!([fresh])),
        dry("create-broken", "").text(r#"{"metadata": {"name": "x""#),
        dry("create-nothing", ""),
    ];
    for validation in ["Strict", "Warn", "Ignore", "Other"] {
        let query = format!("&fieldValidation={validation}");
        let lower = validation.to_lowercase();
        let unknown = with(&fresh, json!({"unknown": 1, "metadata": {"unknown": {"a": "b"}}}));
        steps.push(dry(&format!("create-unknown-{lower}"), &query).body(unknown));
        if validation != "Other" {
            steps.push(dry(&format!("create-duplicate-{lower}"), &query).text(duplicate(&fresh)));
        }
    }
    steps.extend(wrong_types(subject, &fresh).map(|(id, body)| dry(&id, "").body(body)));
    steps.extend(bad_enums(subject).into_iter().map(|(id, body)| dry(&id, "").body(body)));
    steps
}

fn filled(ty: TypeRef, object: &Value, value: &dyn Fn(&FieldDef) -> Option<Value>) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fill(ty, fields, true, value);
    }
    object
}

fn empty(field: &FieldDef) -> Option<Value> {
    match field.shape {
        Shape::List(_) => Some(json!([])),
        Shape::Map(_) => Some(json!({})),
        _ => None,
    }
}

fn zero(field: &FieldDef, pointer: bool) -> Option<Value> {
    let zero = match field.shape {
        Shape::Bool => json!(false),
        Shape::Int32 | Shape::Int64 => json!(0),
        Shape::Str | Shape::Bytes => json!(""),
        Shape::Quantity => json!("0"),
        _ => return None,
    };
    (field.pointer == pointer).then_some(zero)
}

/// The object with its `kind` and its labels written twice.
fn duplicate(object: &Value) -> String {
    let text = object.to_string();
    let kind = object.get("kind").cloned().unwrap_or_default();
    let text = text.replacen('{', &format!("{{\"kind\":{kind},"), 1);
    text.replacen("\"labels\":{", "\"labels\":{\"oracle\":\"twice\",", 1)
}

/// Each top-level field with a value of another type.
fn wrong_types<'a>(subject: &'a Subject, fresh: &'a Value) -> impl Iterator<Item = (String, Value)> + 'a {
    let fields = subject.resource.ty.fields.iter();
    fields.filter(|field| !matches!(field.name, "apiVersion" | "kind" | "metadata" | "status")).map(move |field| {
        let wrong = match field.shape {
            Shape::Struct(_) | Shape::Map(_) | Shape::Bool | Shape::Int32 | Shape::Int64 => json!("text"),
            _ => json!({"a": 1}),
        };
        (format!("create-wrong-{}", field.name), with(fresh, json!({ field.name: wrong })))
    })
}

/// The full object with one enumeration after another broken.
fn bad_enums(subject: &Subject) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    enums(&Shape::Struct(subject.resource.ty), &subject.full, String::new(), &mut places);
    let mut bodies = Vec::new();
    for place in places.into_iter().take(ENUMS) {
        let mut body = with(&subject.full, json!({"metadata": {"labels": {"oracle": "dry"}}}));
        if name(&body) == "full" {
            body = with(&body, json!({"metadata": {"name": "fresh"}}));
        }
        if let Some(value) = body.pointer_mut(&place) {
            *value = json!("Bogus");
            bodies.push((format!("create-bad{}", place.replace('/', "-")), body));
        }
    }
    bodies
}

/// Collects the fields of `value` of which the schema knows all allowed values.
fn enums(shape: &Shape, value: &Value, at: String, places: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Struct(ty), Value::Object(object)) => {
            for field in ty.fields {
                let Some(value) = object.get(field.name) else { continue };
                let at = format!("{at}/{}", field.name);
                if !field.allowed.is_empty() && value.is_string() {
                    places.push(at);
                } else {
                    enums(&field.shape, value, at, places);
                }
            }
        }
        (Shape::List(inner), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate().take(1) {
                enums(inner, item, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
}
