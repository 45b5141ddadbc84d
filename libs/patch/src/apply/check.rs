//! Checks whether a configuration fits the schema closely enough for a merge (upstream `typed` validation).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use oarlock_meta::quote::quote;
use oarlock_schema::{Shape, Value};

use super::atom::{Atom, item_element};
use super::element::Element;
use crate::go_fmt;

/// Returns upstream's texts about the parts that do not fit the schema, each with its path.
pub(super) fn problems(value: &Value, atom: Atom) -> Vec<String> {
    let mut found = Found::default();
    check(value, Expect::Atom(atom), &Place::Root, &mut found);
    found.texts
}

/// A path element that compares by the order of field sets.
struct ByOrder(Element);

impl Ord for ByOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}
impl PartialOrd for ByOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for ByOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for ByOrder {}

/// The most bytes of error texts that are listed: each text contains the path, and a key in a path may be as long as the body.
const MAX_TEXT: usize = 1 << 20;

/// The problems found so far.
#[derive(Default)]
struct Found {
    texts: Vec<String>,
    size: usize,
}

/// A path whose elements borrow their parent, so that valid configurations cause no allocation.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Name(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, &'a Element),
    Index(&'a Place<'a>, usize),
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Name(parent, name) => write!(f, "{parent}.{name}"),
            Place::Element(parent, element) => write!(f, "{parent}{element}"),
            Place::Index(parent, i) => write!(f, "{parent}[{i}]"),
        }
    }
}

#[derive(Clone, Copy)]
enum Expect {
    Atom(Atom),
    Field(Atom, &'static Shape),
}

fn report(path: &Place<'_>, text: impl std::fmt::Display, found: &mut Found) {
    if found.size < MAX_TEXT {
        let text = if matches!(path, Place::Root) { text.to_string() } else { format!("{path}: {text}") };
        found.size += text.len();
        found.texts.push(text);
    }
}

fn check(value: &Value, expect: Expect, path: &Place<'_>, found: &mut Found) {
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
    if found.size >= MAX_TEXT {
        return;
    }
    match (atom, value) {
        (Atom::Struct(ty), Value::Map(map)) => {
            for (name, value) in map.iter() {
                let path = Place::Name(path, name);
                // Upstream stops checking an object at its first unknown field.
                let Some((_, def)) = ty.field(name) else {
                    return report(&path, "field not declared in schema", found);
                };
                check(value, Expect::Field(Atom::of_field(def), &def.shape), &path, found);
            }
        }
        (Atom::Map(inner), Value::Map(map)) => {
            for (name, value) in map.iter() {
                check(value, Expect::Field(Atom::of(inner), inner), &Place::Name(path, name), found);
            }
        }
        (Atom::Keyed(_, inner), Value::List(_)) => items(value, atom, Some(inner), path, found),
        (Atom::Set, Value::List(_)) => items(value, atom, None, path, found),
        (Atom::Leaf, _) => inside_leaf(value, shape, path, found),
        _ => {}
    }
}

/// Checks the inside of a value that is owned as a whole, which must also fit the schema.
fn inside_leaf(value: &Value, shape: Option<&'static Shape>, path: &Place<'_>, found: &mut Found) {
    match (shape, value) {
        (Some(Shape::List(inner)), Value::List(items)) => {
            for (i, item) in items.iter().enumerate() {
                check(item, Expect::Field(whole(inner), inner), &Place::Index(path, i), found);
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

fn items(list: &Value, atom: Atom, inner: Option<&'static Shape>, path: &Place<'_>, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (i, item) in list.items().iter().enumerate() {
        let element = match item_element(item, atom) {
            Ok(element) => element,
            Err(text) => return report(path, format!("element {i}: {text}"), found),
        };
        let named = ByOrder(element);
        if seen.contains(&named) {
            report(path, format!("duplicate entries for key {}", named.0), found);
        }
        if let Some(inner) = inner {
            check(item, Expect::Field(atom.item(), inner), &Place::Element(path, &named.0), found);
        }
        seen.insert(named);
    }
}

/// Returns why a value does not fit `shape`. Upstream prints the value with three of Go's verbs.
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

/// Formats a value as Go's `%#v` does.
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
