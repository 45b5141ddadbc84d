//! Reads JSON schema fields that hold a schema or something simpler.

use std::sync::LazyLock;

use oarlock_schema::{Shape, TYPES, TypeRef, Value};
use thin_vec::ThinVec;

use super::Walk;
use crate::frame::Frame;
use crate::source::{Fail, Kind, Source};

static SCHEMA: LazyLock<Option<TypeRef>> =
    LazyLock::new(|| TYPES.iter().copied().find(|ty| ty.name == "apiextensions/v1.JSONSchemaProps"));

/// Returns the type of a JSON schema.
pub(crate) fn schema_type() -> Option<TypeRef> {
    *SCHEMA
}

impl<'de, S: Source<'de>> Walk<'_, S> {
    /// Reads a field that holds a schema or something simpler. These types have decoders of their own upstream, so no field inside is reported as unknown or
    /// duplicate, and a type error inside stops the decoding.
    pub(super) fn schema_or(&mut self, shape: &Shape, kind: Kind, frame: &Frame<'_>) -> Result<Value, Fail> {
        let strict = std::mem::replace(&mut self.strict, false);
        let saved = self.saved.take();
        let value = self.schema_or_inner(shape, kind, &frame.inner());
        self.strict = strict;
        let inside = std::mem::replace(&mut self.saved, saved);
        match inside {
            Some(text) => Err(Fail::value(text)),
            None => value,
        }
    }

    fn schema_or_inner(&mut self, shape: &Shape, kind: Kind, frame: &Frame<'_>) -> Result<Value, Fail> {
        match (shape, kind) {
            (_, Kind::Map) => match schema_type() {
                Some(ty) => Ok(Value::Struct(self.structure(ty, frame, None)?)),
                None => self.any(frame, true),
            },
            (Shape::SchemaOrBool, Kind::Bool) => Ok(Value::Bool(self.src.bool()?)),
            (Shape::SchemaOrBool, _) => Err(Fail::value("boolean or JSON schema expected")),
            (Shape::SchemaOrArray, Kind::List) => {
                let mut items = ThinVec::new();
                if let Some(ty) = schema_type() {
                    self.list(&Shape::Struct(ty), frame, &mut items)?;
                }
                Ok(or_null(items))
            }
            (Shape::SchemaOrStringArray, Kind::List) => {
                let mut names = ThinVec::new();
                self.list(&Shape::Str, frame, &mut names)?;
                Ok(or_null(names))
            }
            // Any other value is read as null.
            _ => self.src.skip(self.depth).map(|()| Value::Null),
        }
    }
}

/// Returns a list, or `null` for an empty one, as Go writes empty lists of these types.
fn or_null(items: ThinVec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { Value::List(items) }
}
