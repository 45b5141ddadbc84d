//! Whether a configuration fits the schema closely enough to be merged (upstream `typed` validation).

use oarlock_meta::quote::quote;
use oarlock_schema::{Shape, Value};

use super::atom::{Atom, item_element};
use super::element::Element;
use crate::go_fmt;

/// Upstream's texts for what does not fit, each with its path.
pub(super) fn problems(value: &Value, atom: Atom) -> Vec<String> {
    let mut found = Vec::new();
    check(value, Expect::Atom(atom), "", &mut found);
    found
}

#[derive(Clone, Copy)]
enum Expect {
    Atom(Atom),
    Field(Atom, &'static Shape),
}

fn report(path: &str, text: impl std::fmt::Display, found: &mut Vec<String>) {
    found.push(if path.is_empty() { text.to_string() } else { format!("{path}: {text}") });
}

fn check(value: &Value, expect: Expect, path: &str, found: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let atom = match expect {
        Expect::Atom(atom) | Expect::Field(atom, _) => atom,
    };
    let shape = match expect {
        Expect::Field(_, shape) => Some(shape),
        Expect::Atom(_) => None,
    };
    if let Some(shape) = shape
        && let Some(text) = mismatch(shape, value)
    {
        return report(path, text, found);
    }
    match (atom, value) {
        (Atom::Struct(ty), Value::Map(map)) => {
            for (name, value) in map.iter() {
                let path = format!("{path}.{name}");
                // Upstream looks no further in an object once it met an unknown field.
                let Some((_, def)) = ty.field(name) else {
                    return report(&path, "field not declared in schema", found);
                };
                check(value, Expect::Field(Atom::of_field(def), &def.shape), &path, found);
            }
        }
        (Atom::Map(inner), Value::Map(map)) => {
            for (name, value) in map.iter() {
                check(value, Expect::Field(Atom::of(inner), inner), &format!("{path}.{name}"), found);
            }
        }
        (Atom::Keyed(_, inner), Value::List(_)) => items(value, atom, Some(inner), path, found),
        (Atom::Set, Value::List(_)) => items(value, atom, None, path, found),
        (Atom::Leaf, _) => inside_leaf(value, shape, path, found),
        _ => {}
    }
}

/// Values that are owned in one piece still must fit.
fn inside_leaf(value: &Value, shape: Option<&'static Shape>, path: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Some(Shape::List(inner)), Value::List(items)) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}[{i}]");
                check(item, Expect::Field(whole(inner), inner), &path, found);
            }
        }
        (Some(Shape::Struct(ty)), Value::Map(_)) => check(value, Expect::Atom(Atom::Struct(ty)), path, found),
        (Some(Shape::Map(inner)), Value::Map(_)) => check(value, Expect::Atom(Atom::Map(inner)), path, found),
        _ => {}
    }
}

fn whole(shape: &'static Shape) -> Atom {
    match shape {
        Shape::Struct(ty) => Atom::Struct(ty),
        other => Atom::of(other),
    }
}

fn items(list: &Value, atom: Atom, inner: Option<&'static Shape>, path: &str, found: &mut Vec<String>) {
    let mut seen: Vec<Element> = Vec::new();
    for (i, item) in list.items().iter().enumerate() {
        let element = match item_element(item, atom) {
            Ok(element) => element,
            Err(text) => return report(path, format!("element {i}: {text}"), found),
        };
        let place = seen.binary_search_by(|have| have.order(&element));
        if place.is_ok() {
            report(path, format!("duplicate entries for key {element}"), found);
        }
        if let Some(inner) = inner {
            check(item, Expect::Field(atom.item(), inner), &format!("{path}{element}"), found);
        }
        if let Err(place) = place {
            seen.insert(place, element);
        }
    }
}

/// Why a value cannot stand where the schema has `shape`. Upstream prints the value in three of Go's ways.
fn mismatch(shape: &Shape, value: &Value) -> Option<String> {
    let plain = || format!("&{{{}}}", go_fmt::plain(value));
    Some(match (shape, value) {
        (Shape::Struct(_) | Shape::Map(_), Value::Map(_)) | (Shape::List(_), Value::List(_)) => return None,
        (Shape::Struct(_) | Shape::Map(_), _) => format!("expected map, got {}", plain()),
        (Shape::List(_), _) => format!("expected list, got {}", plain()),
        (Shape::Bool, Value::Bool(_)) => return None,
        (Shape::Bool, _) => format!("expected boolean, got {}", plain()),
        (Shape::Int32 | Shape::Int64 | Shape::Float64, Value::Int(_) | Value::Number(_)) => return None,
        (Shape::Int32 | Shape::Int64 | Shape::Float64, _) => {
            format!("expected numeric (int or float), got {}", go_type(value))
        }
        (Shape::Str | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Duration, Value::Str(_)) => return None,
        (Shape::Str | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Duration, _) => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
        }
        (Shape::Quantity | Shape::IntOrString, Value::Map(_) | Value::List(_)) => {
            format!("expected any scalar, got {}", plain())
        }
        _ => return None,
    })
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Number(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Struct(_) => "map[string]interface {}",
    }
}

/// Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    let list = |items: Vec<String>| format!("{}{{{}}}", go_type(value), items.join(", "));
    match value {
        Value::Str(text) => quote(text),
        Value::List(items) => list(items.iter().map(go_syntax).collect()),
        Value::Map(map) => {
            list(map.iter().map(|(key, value)| format!("{}:{}", quote(key), go_syntax(value))).collect())
        }
        other => go_fmt::plain(other),
    }
}
