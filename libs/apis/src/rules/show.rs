//! Formats values for error messages, as upstream's `field.Error` does.

use oarlock_meta::field::BadValue;
use oarlock_meta::quote::quote;
use oarlock_schema::{Shape, Struct, Value};

/// Formats a value for an error message: texts quoted, numbers plain, everything else as compact JSON, absent as `null`.
#[must_use]
pub fn value(value: Option<&Value>) -> FormattedValue {
    FormattedValue(match value {
        None => "null".to_owned(),
        Some(value) => json(value),
    })
}

/// A formatted value.
#[derive(Debug)]
pub struct FormattedValue(String);

impl BadValue for FormattedValue {
    fn render(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

/// Returns the compact JSON of a value.
#[must_use]
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Returns the compact JSON of a struct.
#[must_use]
pub fn node(node: &Struct) -> String {
    let mut out = String::new();
    list(&mut out, '{', '}', node.iter().map(|(def, v)| (Some(def.name), v)));
    out
}

/// Returns the compact JSON of a list.
#[must_use]
pub fn items(items: &[Value]) -> String {
    let mut out = String::new();
    list(&mut out, '[', ']', items.iter().map(|item| (None, item)));
    out
}

/// Formats a value like upstream's internal types.
#[must_use]
pub fn internal_value(value: Option<&Value>) -> FormattedValue {
    let mut out = String::new();
    match value {
        None => out.push_str("null"),
        Some(value) => write_internal(value, &mut out),
    }
    FormattedValue(out)
}

/// Formats a struct like upstream's internal types, which have no JSON names: every field, with its Go name, absent ones as `null`.
#[must_use]
pub fn internal(shown: &Struct) -> String {
    if shown.ty().name.starts_with("meta/") {
        // Types of the meta group have no internal form.
        return node(shown);
    }
    let mut out = String::from("{");
    for (id, def) in shown.ty().iter() {
        if def.shape.element_type().is_some_and(|ty| ty.name == "meta/v1.ObjectMeta") {
            // Embedded, and with JSON names.
            if let Some(Value::Struct(meta)) = shown.field(id) {
                out.push_str(node(meta).trim_start_matches('{').trim_end_matches('}'));
            }
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        let name = match def.name {
            "seLinuxOptions" => "SELinuxOptions".to_owned(),
            name => name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect(),
        };
        out.push_str(&quote(&name));
        out.push(':');
        match shown.field(id) {
            Some(value) => write_internal(value, &mut out),
            None if def.pointer || matches!(def.shape, Shape::List(_) | Shape::Map(_)) => out.push_str("null"),
            None => write_internal(&Value::zero(&def.shape), &mut out),
        }
    }
    out.push('}');
    out
}

fn write_internal(value: &Value, out: &mut String) {
    match value {
        Value::Struct(inner) => out.push_str(&internal(inner)),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_internal(item, out);
            }
            out.push(']');
        }
        other => write(other, out),
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => out.push_str(&n.to_string()),
        Value::Number(text) => out.push_str(text),
        Value::Str(text) => out.push_str(&quote(text)),
        Value::List(items) => list(out, '[', ']', items.iter().map(|item| (None, item))),
        Value::Struct(node) => list(out, '{', '}', node.iter().map(|(def, v)| (Some(def.name), v))),
        Value::Map(map) => list(out, '{', '}', map.iter().map(|(k, v)| (Some(k), v))),
    }
}

fn list<'a>(out: &mut String, open: char, close: char, items: impl Iterator<Item = (Option<&'a str>, &'a Value)>) {
    out.push(open);
    for (i, (key, value)) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if let Some(key) = key {
            out.push_str(&quote(key));
            out.push(':');
        }
        write(value, out);
    }
    out.push(close);
}
