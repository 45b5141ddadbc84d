//! Nodes of an object's tree as values. Nothing is converted before it is looked at.
//!
//! As upstream shows objects to expressions (their unstructured form): times, quantities and bytes are texts, and fields that are not set are
//! not there.

use std::collections::BTreeMap;

use oarlock_schema::{Obj, Shape, Value as Tree};

use super::{Key, List, Map, Text, Value};

impl<'a> Value<'a> {
    /// A node.
    #[must_use]
    pub fn tree(node: &'a Tree) -> Self {
        match node {
            Tree::Null => Self::Null,
            Tree::Bool(b) => Self::Bool(*b),
            Tree::Int(n) => Self::Int(*n),
            // Decoders checked that it is a number.
            Tree::Number(text) => Self::Double(text.parse().unwrap_or(f64::NAN)),
            Tree::Str(text) => Self::String(Text::Borrowed(text)),
            Tree::List(items) => Self::List(List::tree(items)),
            Tree::Struct(node) => Self::Map(Map::object(node)),
            Tree::Map(map) => Self::Map(Map::tree(map)),
        }
    }

    /// A whole object.
    #[must_use]
    pub fn object(obj: &'a Obj) -> Self {
        Self::Map(Map::object(obj))
    }
}

/// A field of an object: its type says what its node does not.
pub(super) fn field<'a>(shape: &Shape, node: &'a Tree) -> Value<'a> {
    match (shape, node) {
        #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
        (Shape::Float64, Tree::Int(n)) => Value::Double(*n as f64),
        (Shape::FieldsV1, Tree::Str(text)) => {
            serde_json::from_str(text).ok().and_then(json).unwrap_or(Value::String(Text::Borrowed(text)))
        }
        _ => Value::tree(node),
    }
}

/// JSON as a value of its own; only field sets are kept as text and need it.
fn json(value: serde_json::Value) -> Option<Value<'static>> {
    Some(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(b) => Value::Bool(b),
        serde_json::Value::Number(n) => n.as_i64().map_or(Value::Double(n.as_f64()?), Value::Int),
        serde_json::Value::String(text) => text.into(),
        serde_json::Value::Array(items) => {
            Value::List(List::new(items.into_iter().map(json).collect::<Option<_>>()?).ok()?)
        }
        serde_json::Value::Object(fields) => {
            let entry = |(name, value): (String, _)| Some((Key::String(Text::Owned(name.into())), json(value)?));
            let entries: BTreeMap<_, _> = fields.into_iter().map(entry).collect::<Option<_>>()?;
            Value::Map(Map::new(entries).ok()?)
        }
    })
}
