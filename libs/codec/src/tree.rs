//! Converts between generic values and typed structs; a patch works on either form.

use std::borrow::Cow;

use oarlock_schema::{FieldDef, FieldId, Map, Obj, Shape, Str, Struct, TypeRef, Value};
use thin_vec::ThinVec;

use crate::error::DecodeError;
use crate::json;
use crate::source::{Fail, Kind, Num, Source};
use crate::stamp::stamp;
use crate::walk::{Decoded, Mode, Walk};

/// Reads a value, generic or already typed, as an object of type `ty`, with the rules and the texts of the JSON decoder.
/// If the value states no `kind` and `apiVersion`, those of `ty` are set.
///
/// # Errors
/// [`DecodeError::Value`] for type errors and unreadable texts, [`DecodeError::Syntax`] for a value with too deep nesting.
pub fn type_value(value: &Value, ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, DecodeError> {
    let mut walk = Walk::new(Tree::new(value), mode);
    let root = walk.root(ty);
    let root = finish(&mut walk, root)?;
    Ok(Decoded { value: Obj::from_root(stamp(root)), findings: walk.findings })
}

/// Reads a value as any shape, such as a patch of one field, or a default.
///
/// # Errors
/// As for [`type_value`].
pub fn type_as(value: &Value, shape: &Shape) -> Result<Value, DecodeError> {
    let mut walk = Walk::new(Tree::new(value), Mode::Lenient);
    let typed = walk.shaped(shape);
    finish(&mut walk, typed)
}

fn finish<T>(walk: &mut Walk<'_, Tree<'_>>, result: Result<T, Fail>) -> Result<T, DecodeError> {
    let value = result.map_err(|fail| match fail {
        Fail::Value(text) => DecodeError::Value(String::from(*text)),
        Fail::Syntax | Fail::Depth => DecodeError::Syntax(json::syntax::too_deep()),
    })?;
    match walk.saved.take() {
        Some(text) => Err(DecodeError::Value(text.into())),
        None => Ok(value),
    }
}

/// Returns the generic form of a struct: maps at all levels, as JSON decoding gives.
#[must_use]
pub fn untype(node: &Struct) -> Value {
    let mut entries = ThinVec::with_capacity(node.entries().len());
    for (def, value) in node.iter() {
        entries.push((Str::const_new(def.name), untype_field(def, value)));
    }
    Value::Map(Map::from_entries(entries))
}

fn untype_field(def: &FieldDef, value: &Value) -> Value {
    match (&def.shape, value) {
        (Shape::FieldsV1, Value::Str(json)) => match json::decode_value(json.as_bytes(), Mode::Lenient) {
            Ok(fields) => fields.value,
            Err(_) => Value::Null,
        },
        _ => untype_value(value),
    }
}

/// Returns the generic form of any value.
#[must_use]
pub fn untype_value(value: &Value) -> Value {
    match value {
        Value::Struct(node) => untype(node),
        Value::List(items) => Value::List(items.iter().map(untype_value).collect()),
        Value::Map(map) => {
            Value::Map(Map::from_entries(map.entries().iter().map(|(k, v)| (k.clone(), untype_value(v))).collect()))
        }
        other => other.clone(),
    }
}

/// A [`Source`] that reads a tree.
pub(crate) struct Tree<'a> {
    next: Option<&'a Value>,
    /// Whether the next value is a field set, whose text is JSON already.
    embedded: bool,
    open: Vec<Level<'a>>,
}

enum Level<'a> {
    List(std::slice::Iter<'a, Value>),
    Map(std::slice::Iter<'a, (Str, Value)>),
    Struct(TypeRef, std::slice::Iter<'a, (FieldId, Value)>),
}

impl<'a> Tree<'a> {
    pub(crate) fn new(value: &'a Value) -> Self {
        Self { next: Some(value), embedded: false, open: Vec::new() }
    }

    fn value(&mut self) -> Result<&'a Value, Fail> {
        self.next.take().ok_or(Fail::Syntax)
    }
}

impl<'a> Source<'a> for Tree<'a> {
    fn peek(&mut self) -> Result<Kind, Fail> {
        Ok(match self.next.ok_or(Fail::Syntax)? {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_) | Value::Number(_) => Kind::Number,
            Value::Str(_) => Kind::Str,
            Value::List(_) => Kind::List,
            Value::Struct(_) | Value::Map(_) => Kind::Map,
        })
    }

    fn null(&mut self) -> Result<(), Fail> {
        self.value().map(drop)
    }

    fn bool(&mut self) -> Result<bool, Fail> {
        self.value()?.as_bool().ok_or(Fail::Syntax)
    }

    fn number(&mut self) -> Result<Num<'a>, Fail> {
        match self.value()? {
            Value::Int(n) => Ok(Num::Int(*n)),
            Value::Number(text) => Ok(Num::Text(Cow::Borrowed(text))),
            _ => Err(Fail::Syntax),
        }
    }

    fn str(&mut self) -> Result<Cow<'a, str>, Fail> {
        self.value()?.as_str().map(Cow::Borrowed).ok_or(Fail::Syntax)
    }

    fn begin(&mut self) {
        let level = match self.next.take() {
            Some(Value::List(items)) => Level::List(items.iter()),
            Some(Value::Map(map)) => Level::Map(map.entries().iter()),
            Some(Value::Struct(node)) => Level::Struct(node.ty(), node.entries().iter()),
            _ => return,
        };
        self.open.push(level);
    }

    fn next_item(&mut self, _first: bool) -> Result<bool, Fail> {
        let Some(Level::List(items)) = self.open.last_mut() else { return Err(Fail::Syntax) };
        self.next = items.next();
        self.embedded = false;
        if self.next.is_none() {
            self.open.pop();
        }
        Ok(self.next.is_some())
    }

    fn next_key(&mut self, _first: bool) -> Result<Option<Cow<'a, str>>, Fail> {
        self.embedded = false;
        let entry = match self.open.last_mut() {
            Some(Level::Map(entries)) => entries.next().map(|(key, value)| (key.as_str(), value)),
            Some(Level::Struct(ty, fields)) => fields.find_map(|(id, value)| {
                let def = ty.def(*id)?;
                self.embedded = matches!(def.shape, Shape::FieldsV1);
                Some((def.name, value))
            }),
            _ => return Err(Fail::Syntax),
        };
        match entry {
            Some((key, value)) => {
                self.next = Some(value);
                Ok(Some(Cow::Borrowed(key)))
            }
            None => {
                self.open.pop();
                Ok(None)
            }
        }
    }

    fn skip(&mut self, _depth: u32) -> Result<(), Fail> {
        self.value().map(drop)
    }

    fn raw(&mut self, _depth: u32) -> Result<Cow<'a, str>, Fail> {
        match self.value()? {
            Value::Str(text) if self.embedded => Ok(Cow::Borrowed(text)),
            value => {
                let mut out = Vec::new();
                json::encode_raw(value, &mut out);
                String::from_utf8(out).map(Cow::Owned).map_err(|_| Fail::Syntax)
            }
        }
    }
}
