//! Generated request bodies: one object for each list, map, text and number of the schema, in which that field is very large and few others are set.

use std::collections::HashSet;
use std::fmt::Write as _;

use oarlock_schema::{FieldDef, RESOURCES, Resource, Shape, TypeRef};

/// Levels below a kind that are searched for fields; schemas can be recursive.
const MAX_DEPTH: usize = 12;

/// A field of a kind whose value can fill a whole request body.
#[derive(Debug, Clone)]
pub struct Place {
    /// The kind's resource.
    pub resource: &'static Resource,
    /// Path of fields from the object, ending with the large field.
    pub path: Vec<&'static FieldDef>,
}

/// Returns every list, map, text and number of every type, each once, at its first path in any kind.
#[must_use]
pub fn places() -> Vec<Place> {
    let (mut seen, mut out) = (HashSet::new(), Vec::new());
    for resource in RESOURCES {
        walk(resource, resource.ty, &mut Vec::new(), &mut seen, &mut out);
    }
    out
}

fn walk(
    resource: &'static Resource,
    ty: TypeRef,
    path: &mut Vec<&'static FieldDef>,
    seen: &mut HashSet<(&'static str, &'static str)>,
    out: &mut Vec<Place>,
) {
    for def in ty.fields {
        if !seen.insert((ty.name, def.name)) || matches!(def.name, "kind" | "apiVersion") {
            continue;
        }
        path.push(def);
        if !matches!(def.shape, Shape::Bool | Shape::Struct(_)) {
            out.push(Place { resource, path: path.clone() });
        }
        if let Some(inner) = def.shape.element_type()
            && path.len() < MAX_DEPTH
        {
            walk(resource, inner, path, seen, out);
        }
        path.pop();
    }
}

impl Place {
    /// Prints as `v1 Pod spec.containers.env`.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.path.iter().map(|def| def.name).collect();
        format!("{} {} {}", self.resource.group_version(), self.resource.kind, names.join("."))
    }

    /// Renders an object as JSON, with `n` items, entries, letters or digits in this field. Each item occurs twice, so that rules about distinct items and about duplicates
    /// both have work.
    #[must_use]
    pub fn body(&self, n: usize) -> String {
        let resource = self.resource;
        let mut out = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", resource.group_version(), resource.kind);
        let namespace = if resource.namespaced { ",\"namespace\":\"d\"" } else { "" };
        let named = format!("\"name\":\"a\"{namespace}");
        let below_metadata = self.path.first().is_some_and(|def| def.name == "metadata");
        if !below_metadata {
            let _ = write!(out, "\"metadata\":{{{named}}},");
        }
        let mut ends = vec!['}'];
        for (depth, def) in self.path.iter().enumerate() {
            if depth == 1 && below_metadata && !matches!(def.name, "name" | "namespace") {
                let _ = write!(out, "{named},");
            }
            let _ = write!(out, "\"{}\":", def.name);
            if depth + 1 == self.path.len() {
                much(&def.shape, n, &mut out);
                break;
            }
            open(&def.shape, &mut out, &mut ends);
        }
        out.extend(ends.iter().rev());
        out
    }

    /// Returns the JSON pointer to the field, through the first item or entry of each container.
    #[must_use]
    pub fn pointer(&self) -> String {
        let mut out = String::new();
        for (depth, def) in self.path.iter().enumerate() {
            let _ = write!(out, "/{}", def.name);
            let mut shape = &def.shape;
            while depth + 1 < self.path.len() {
                shape = match shape {
                    Shape::List(inner) => {
                        out.push_str("/0");
                        inner
                    }
                    Shape::Map(inner) => {
                        out.push_str("/k");
                        inner
                    }
                    _ => break,
                };
            }
        }
        out
    }
}

fn open(shape: &Shape, out: &mut String, ends: &mut Vec<char>) {
    match shape {
        Shape::List(inner) => {
            out.push('[');
            ends.push(']');
            open(inner, out, ends);
        }
        Shape::Map(inner) => {
            out.push_str("{\"k\":");
            ends.push('}');
            open(inner, out, ends);
        }
        _ => {
            out.push('{');
            ends.push('}');
        }
    }
}

fn much(shape: &Shape, n: usize, out: &mut String) {
    match shape {
        Shape::List(inner) => {
            out.push('[');
            for i in 0..n {
                out.push_str(if i > 0 { "," } else { "" });
                item(inner, i / 2, 2, out);
            }
            out.push(']');
        }
        Shape::Map(inner) => {
            out.push('{');
            for i in 0..n {
                // Unsorted, as a hostile client may send them.
                let _ = write!(out, "{}\"k-{}\":", if i > 0 { "," } else { "" }, n - i);
                item(inner, i / 2, 2, out);
            }
            out.push('}');
        }
        Shape::Int32 | Shape::Int64 | Shape::Float64 => {
            out.push('1');
            out.extend(std::iter::repeat_n('7', 16 * n));
        }
        Shape::Quantity => {
            out.push('"');
            out.extend(std::iter::repeat_n('7', 16 * n));
            out.push('"');
        }
        Shape::FieldsV1 => {
            out.push('{');
            for i in 0..n {
                let _ = write!(out, "{}\"f:k-{}\":{{}}", if i > 0 { "," } else { "" }, n - i);
            }
            out.push('}');
        }
        _ => {
            out.push('"');
            out.extend(std::iter::repeat_n("a,=(/-.!", 2 * n));
            out.push('"');
        }
    }
}

/// Renders a small value that differs with `i`; structs get their scalars and `depth` levels of nested structs.
fn item(shape: &Shape, i: usize, depth: usize, out: &mut String) {
    match shape {
        Shape::Bool => out.push_str("true"),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => {
            let _ = write!(out, "{}", i + 1);
        }
        Shape::Quantity => {
            let _ = write!(out, "\"{}\"", i + 1);
        }
        Shape::Str => {
            let _ = write!(out, "\"a-{i}\"");
        }
        Shape::Bytes => out.push_str("\"YQ==\""),
        Shape::Time => out.push_str("\"2026-11-25T00:00:00Z\""),
        Shape::MicroTime => out.push_str("\"2026-11-25T00:00:00.000000Z\""),
        Shape::Duration => out.push_str("\"1s\""),
        Shape::List(_) => out.push_str("[]"),
        Shape::Struct(ty) if depth > 0 => {
            out.push('{');
            let mut comma = false;
            for def in ty.fields.iter().filter(|def| scalar(&def.shape)) {
                let _ = write!(out, "{}\"{}\":", if comma { "," } else { "" }, def.name);
                item(&def.shape, i, depth - 1, out);
                comma = true;
            }
            out.push('}');
        }
        _ => out.push_str("{}"),
    }
}

fn scalar(shape: &Shape) -> bool {
    matches!(shape, Shape::Str | Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Quantity)
}
