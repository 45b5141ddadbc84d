//! Values over the nodes of an object's tree, converted only when an expression reads them.
//!
//! Expressions see objects as in upstream's unstructured form: times, quantities and bytes are texts, and unset fields are
//! absent.

use std::collections::BTreeMap;

use oarlock_schema::{Obj, Shape, Value as Tree};

use super::{Key, List, Map, Text, Value};

impl<'a> Value<'a> {
    /// Returns the value of a node.
    #[must_use]
    pub fn tree(node: &'a Tree) -> Self {
        match node {
            Tree::Null => Self::Null,
            Tree::Bool(b) => Self::Bool(*b),
            Tree::Int(n) => Self::Int(*n),
            // Decoders have checked that the text is a number.
            Tree::Number(text) => Self::Double(text.parse().unwrap_or(f64::NAN)),
            Tree::Str(text) => Self::String(Text::Borrowed(text)),
            Tree::List(items) => Self::List(List::tree(items)),
            Tree::Struct(node) => Self::Map(Map::object(node)),
            Tree::Map(map) => Self::Map(Map::tree(map)),
        }
    }

    /// Returns the value of a field, whose type can differ from the type of its node.
    pub(super) fn field(shape: &Shape, node: &'a Tree) -> Self {
        match (shape, node) {
            #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
            (Shape::Float64, Tree::Int(n)) => Self::Double(*n as f64),
            (Shape::FieldsV1, Tree::Str(text)) => {
                serde_json::from_str(text).ok().and_then(json).unwrap_or(Self::String(Text::Borrowed(text)))
            }
            _ => Self::tree(node),
        }
    }

    /// Returns the value of a whole object.
    #[must_use]
    pub fn object(obj: &'a Obj) -> Self {
        Self::Map(Map::object(obj))
    }
}

/// Converts JSON to an owned value; only field sets need this conversion, since they are stored as text.
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
